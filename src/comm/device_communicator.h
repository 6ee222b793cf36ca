#pragma once

#include <memory>

#include "comm/communicator.h"
#include "core/device.h"

namespace fathom::comm {

/// What the devices of a group do for each other beside collectives.
enum class DeviceTraffic { collectives, messages_too };

/// The same group, where memory of the device goes from device to device without the host: calls on
/// it return once they are enqueued, in the order of the device's kernels, and a wait holds later
/// kernels back, not the host. All other memory goes as before. Whether an address belongs to the
/// device decides, and must decide alike on all ranks. Only all-reduces of floats, and messages
/// where the traffic has them, are known to devices: the rest throws Error(internal).
///
/// Devices match messages from one rank to another by their order, not by their tags; a receiver
/// must therefore take them in the order in which they were sent. With FATHOM_CHECK_MESSAGES=1 in
/// the environment every message's tag and size go ahead of it through the host, which waits for
/// them in each receive, and a receive that expects others throws Error(comm).
///
/// Gives `group` itself back where memory of the device is the host's, or where it is a group of
/// one, in which memory of a device can be reduced and broadcast, but not gathered, scattered or
/// sent. Collective over the group; blocks. The device must outlive the result.
std::unique_ptr<Communicator> on_devices(std::unique_ptr<Communicator> group, Device& device,
                                         DeviceTraffic traffic);

}  // namespace fathom::comm
