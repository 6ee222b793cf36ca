#include "gpu/staging.h"

#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <vector>

#include "stream_mode.h"

namespace fathom::gpu {
namespace {

using Bytes = std::vector<std::uint8_t>;

class Staging : public test::StreamModes {
 protected:
  Bytes download(const std::byte* from, std::size_t bytes) {
    Bytes out(bytes);
    DownloadBuffer(wait_).copy(out.data(), from, bytes, stream_.get());
    return out;
  }

  HostWait wait_;
  Stream stream_ = make_stream();
};

Bytes random_bytes(std::size_t count, std::uint32_t seed) {
  std::mt19937 engine(seed);
  Bytes out(count);
  for (std::uint8_t& byte : out) byte = static_cast<std::uint8_t>(engine());
  return out;
}

// One buffer of the host's serves all uploads: it is overwritten as soon as copy() returns, long
// before a lazy stream reads anything.
std::int64_t upload_in_pieces(UploadRing& ring, const Bytes& source, std::byte* to,
                              cudaStream_t stream) {
  std::mt19937 engine(5);
  Bytes reused;
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t piece = std::min<std::size_t>(1 + engine() % 3000, source.size() - at);
    const auto from = source.begin() + static_cast<std::ptrdiff_t>(at);
    reused.assign(from, from + static_cast<std::ptrdiff_t>(piece));
    ring.copy(to + at, reused.data(), piece, stream);
    std::fill(reused.begin(), reused.end(), std::uint8_t{0xee});
    at += piece;
  }
  return ring.waits();
}

TEST_P(Staging, LosesNoneOfManySmallUploads) {
  const Bytes source = random_bytes(1'500'000, 1);
  const DeviceMemory memory = make_device_memory(source.size());
  UploadRing ring(wait_, 4096, 3);
  const std::int64_t waits = upload_in_pieces(ring, source, memory.get(), stream_.get());
  EXPECT_EQ(download(memory.get(), source.size()), source);
  // A lazy stream runs only for those who wait, and so every new segment beyond the third does.
  const auto segments = static_cast<std::int64_t>(source.size() / 4096);
  EXPECT_GE(waits, lazy() ? segments - 3 : 0);
}

TEST_P(Staging, NeverWaitsWhileTheRingIsNotFull) {
  const Bytes source = random_bytes(100'000, 2);
  const DeviceMemory memory = make_device_memory(source.size());
  UploadRing ring(wait_, 65536, 4);
  EXPECT_EQ(upload_in_pieces(ring, source, memory.get(), stream_.get()), 0);
  EXPECT_EQ(download(memory.get(), source.size()), source);
}

TEST_P(Staging, CutsWhatIsLargerThanTheRing) {
  const Bytes source = random_bytes(100'003, 3);
  const DeviceMemory memory = make_device_memory(source.size());
  UploadRing ring(wait_, 1024, 2);
  ring.copy(memory.get(), source.data(), source.size(), stream_.get());
  for (const std::size_t half : {std::size_t{1024}, std::size_t{50'002}, std::size_t{1} << 20}) {
    Bytes out(source.size());
    DownloadBuffer(wait_, half).copy(out.data(), memory.get(), out.size(), stream_.get());
    EXPECT_EQ(out, source) << "through halves of " << half;
  }
}

INSTANTIATE_TEST_SUITE_P(Streams, Staging, test::kStreamModes, test::stream_mode_name);

}  // namespace
}  // namespace fathom::gpu
