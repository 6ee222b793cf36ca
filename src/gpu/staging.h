#pragma once

#include <cstdint>
#include <vector>

#include "gpu/host_wait.h"
#include "gpu/resources.h"

// Copies between pageable host memory and the device go through pinned memory: only from there can
// the device copy on its own while the host goes on.

namespace fathom::gpu {

/// A ring of pinned segments that uploads fill one after another. The caller's memory has been read
/// when copy() returns; the copy to the device happens in the order of the stream. The host waits
/// only when it comes round to a segment whose copies have not yet run.
class UploadRing {
 public:
  explicit UploadRing(HostWait& wait, std::size_t segment_bytes = std::size_t{1} << 20,
                      int segments = 8);

  void copy(void* device_memory, const void* host, std::size_t bytes, cudaStream_t stream);

  /// How often the host had to wait so far.
  std::int64_t waits() const { return waits_; }

 private:
  struct Segment {
    PinnedMemory memory;
    Event filled;  ///< recorded after the last copy out of it
  };
  void next_segment(cudaStream_t stream);

  HostWait& wait_;
  std::size_t segment_bytes_;
  std::vector<Segment> segments_;
  std::size_t current_ = 0;
  std::size_t used_ = 0;  // bytes of the current segment
  std::int64_t waits_ = 0;
};

/// Copies to the host, by way of two pinned halves of which one is filled while the other is read.
class DownloadBuffer {
 public:
  explicit DownloadBuffer(HostWait& wait, std::size_t half_bytes = std::size_t{1} << 20);

  /// Blocks until the memory has arrived, and with it all work that the stream had before.
  void copy(void* host, const void* device_memory, std::size_t bytes, cudaStream_t stream);

 private:
  struct Half {
    PinnedMemory memory;
    Event arrived;
  };
  HostWait& wait_;
  std::size_t half_bytes_;
  Half halves_[2];
};

}  // namespace fathom::gpu
