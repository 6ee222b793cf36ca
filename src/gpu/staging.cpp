#include "gpu/staging.h"

#include <algorithm>
#include <cstring>

namespace fathom::gpu {
namespace {

// Where a piece begins in a segment: a cache line, so that memcpy and the copy engine run at speed.
constexpr std::size_t kPiece = 64;

}  // namespace

UploadRing::UploadRing(HostWait& wait, std::size_t segment_bytes, int segments)
    : wait_(wait), segment_bytes_(segment_bytes) {
  for (int i = 0; i < segments; ++i)
    segments_.push_back({make_pinned(segment_bytes), make_event()});
}

void UploadRing::copy(void* device_memory, const void* host, std::size_t bytes,
                      cudaStream_t stream) {
  auto* to = static_cast<std::byte*>(device_memory);
  const auto* from = static_cast<const std::byte*>(host);
  while (bytes > 0) {
    if (used_ >= segment_bytes_) next_segment(stream);
    const std::size_t piece = std::min(bytes, segment_bytes_ - used_);
    std::byte* staged = segments_[current_].memory.get() + used_;
    std::memcpy(staged, from, piece);
    FATHOM_CUDA(cudaMemcpyAsync(to, staged, piece, cudaMemcpyHostToDevice, stream));
    used_ += (piece + kPiece - 1) / kPiece * kPiece;
    to += piece;
    from += piece;
    bytes -= piece;
  }
}

void UploadRing::next_segment(cudaStream_t stream) {
  FATHOM_CUDA(cudaEventRecord(segments_[current_].filled.get(), stream));
  current_ = (current_ + 1) % segments_.size();
  used_ = 0;
  // In the first round the event has never been recorded, which counts as done.
  cudaEvent_t filled = segments_[current_].filled.get();
  const cudaError_t state = cudaEventQuery(filled);
  if (state != cudaErrorNotReady) {
    FATHOM_CUDA(state);
    return;
  }
  ++waits_;
  wait_.until(filled);
}

DownloadBuffer::DownloadBuffer(HostWait& wait, std::size_t half_bytes)
    : wait_(wait), half_bytes_(half_bytes) {
  for (Half& half : halves_) half = {make_pinned(half_bytes), make_event()};
}

void DownloadBuffer::copy(void* host, const void* device_memory, std::size_t bytes,
                          cudaStream_t stream) {
  auto* to = static_cast<std::byte*>(host);
  const auto* from = static_cast<const std::byte*>(device_memory);
  const std::size_t pieces = (bytes + half_bytes_ - 1) / half_bytes_;
  const auto size = [&](std::size_t i) { return std::min(half_bytes_, bytes - i * half_bytes_); };
  const auto send = [&](std::size_t i) {
    const Half& half = halves_[i % 2];
    FATHOM_CUDA(cudaMemcpyAsync(half.memory.get(), from + i * half_bytes_, size(i),
                                cudaMemcpyDeviceToHost, stream));
    FATHOM_CUDA(cudaEventRecord(half.arrived.get(), stream));
  };
  send(0);
  for (std::size_t i = 0; i < pieces; ++i) {
    if (i + 1 < pieces) send(i + 1);  // into the half that the last round has read
    const Half& half = halves_[i % 2];
    wait_.until(half.arrived.get());
    std::memcpy(to + i * half_bytes_, half.memory.get(), size(i));
  }
}

}  // namespace fathom::gpu
