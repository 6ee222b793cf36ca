#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/device_communicator.h"
#include "comm/grid_shape.h"

namespace fathom::comm {

/// This rank's place on the grid and its groups along each axis. In every group the ranks are
/// ordered by their coordinate, so `pp().rank()` is the stage and `tp().rank()` the shard.
class ProcessGrid {
 public:
  /// Collective over `world`, which must outlive the grid. Throws Error(config) when the world does
  /// not have shape.ranks() ranks. The groups move the device's memory by the device's own means
  /// (comm/device_communicator.h); the world moves the host's only.
  ProcessGrid(Communicator& world, const GridShape& shape, Device& device);

  /// Where memory of devices is the host's, or none of it is moved. Throws Error(internal) on a
  /// backend whose memory is apart.
  ProcessGrid(Communicator& world, const GridShape& shape);

  const GridShape& shape() const { return shape_; }
  const GridCoordinates& place() const { return place_; }
  bool is_first_stage() const { return place_.pp == 0; }
  bool is_last_stage() const { return place_.pp == shape_.pp - 1; }

  Communicator& world() { return world_; }
  Communicator& dp() { return *dp_; }
  Communicator& pp() { return *pp_; }
  Communicator& tp() { return *tp_; }

  /// First and last stage with the same dp and tp coordinate: they share a tied embedding. Absent
  /// on the stages between, and everywhere when there is one stage.
  Communicator* first_last() { return first_last_.get(); }

  /// The tensor ranks that hold the same key-value heads as this one: a group of
  /// place_kv_heads(tp, kv_heads).replicas ranks. Collective over tp().
  std::unique_ptr<Communicator> make_kv_replica_group(int kv_heads);

 private:
  ProcessGrid(Communicator& world, const GridShape& shape, Device* device);
  std::unique_ptr<Communicator> on_devices(std::unique_ptr<Communicator> group,
                                           DeviceTraffic traffic) const;

  Communicator& world_;
  GridShape shape_;
  Device* device_;
  GridCoordinates place_;
  std::unique_ptr<Communicator> dp_;
  std::unique_ptr<Communicator> pp_;
  std::unique_ptr<Communicator> tp_;
  std::unique_ptr<Communicator> first_last_;
};

}  // namespace fathom::comm
