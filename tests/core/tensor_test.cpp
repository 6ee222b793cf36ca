#include "core/tensor.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "core/arena.h"
#include "tests/support/expect_error.h"

namespace fathom {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(Arena, GivesBackWholeWhatWasFreedInAnyOrder) {
  Arena arena(16 * kMiB);
  for (int order = 0; order < 6; ++order) {
    void* blocks[] = {arena.allocate(5 * kMiB), arena.allocate(5 * kMiB), arena.allocate(5 * kMiB)};
    const int first = order % 3, second = (first + 1 + order / 3) % 3;
    arena.free(blocks[first]);
    arena.free(blocks[second]);
    arena.free(blocks[3 - first - second]);
    EXPECT_EQ(arena.stats().in_use, 0u);
    void* whole = arena.allocate(16 * kMiB);  // fits only if all pieces have merged again
    arena.free(whole);
  }
}

TEST(Arena, TakesTheTightestGap) {
  Arena arena(16 * kMiB);
  void* large = arena.allocate(4 * kMiB);
  void* wall = arena.allocate(kMiB);
  void* small = arena.allocate(2 * kMiB);
  void* end = arena.allocate(kMiB);
  arena.free(large);
  arena.free(small);
  EXPECT_EQ(arena.allocate(2 * kMiB), small);
  EXPECT_EQ(arena.allocate(4 * kMiB), large);
  arena.free(wall);
  arena.free(end);
}

TEST(Arena, AlignsAndCountsEvenTheSmallestRequest) {
  Arena arena(2 * kMiB);
  for (std::size_t bytes : {0u, 1u, 63u, 64u, 100u}) {
    const auto address = reinterpret_cast<std::uintptr_t>(arena.allocate(bytes));
    EXPECT_EQ(address % 64, 0u);
  }
  EXPECT_GE(arena.stats().in_use, 228u);
}

TEST(Arena, RemembersItsPeak) {
  Arena arena(8 * kMiB);
  arena.free(arena.allocate(6 * kMiB));
  EXPECT_EQ(arena.stats().peak, 6 * kMiB);
  arena.reset_peak();
  EXPECT_EQ(arena.stats().peak, 0u);
}

TEST(Arena, SaysWhatDoesNotFit) {
  Arena arena(8 * kMiB);
  arena.allocate(5 * kMiB);
  try {
    arena.allocate(4 * kMiB);
    FAIL() << "4 MiB beside 5 in 8";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    const std::string text = error.what();
    for (const char* part : {"4 MiB", "5 MiB", "8 MiB", "run.memory_limit_gib"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  }
}

// Addresses that belong to nothing: an allocator that looked there would die.
TEST(RangeAllocator, TouchesNoMemory) {
  auto* base = reinterpret_cast<std::byte*>(std::uintptr_t{kMiB});
  RangeAllocator range(base, 3 * kMiB);
  std::byte* first = static_cast<std::byte*>(range.allocate(kMiB));
  void* second = range.allocate(2 * kMiB);
  EXPECT_EQ(first, base);
  EXPECT_TRUE(range.owns(first + kMiB) && range.owns(second));
  EXPECT_FALSE(range.owns(base - 1) || range.owns(base + 3 * kMiB) || range.owns(&range));
  range.free(first);
  EXPECT_EQ(range.allocate(kMiB), first);
}

// Enough is free, but not in one piece: both sizes must be told, or the message is a riddle.
TEST(RangeAllocator, SaysHowLargeThePiecesAre) {
  RangeAllocator range(reinterpret_cast<std::byte*>(std::uintptr_t{kMiB}), 10 * kMiB);
  void* first = range.allocate(4 * kMiB);
  range.allocate(2 * kMiB);
  range.free(first);
  testing::expect_error(
      ErrorKind::config, [&] { range.allocate(6 * kMiB); }, "a tensor of 6 MiB", "2 MiB in use",
      "limit 10 MiB", "largest free piece 4 MiB", "batch.micro_batch", "memory.recompute",
      "model.frozen_dtype", "grid.tp", "grid.pp");
}

TEST(Tensor, GivesItsMemoryBackWithTheLastHandle) {
  const auto device = make_cpu_device(8 * kMiB);
  {
    const Tensor tensor = Tensor::zeros(*device, {1024, 256});
    const Tensor rows = tensor.slice_rows(1, 2);
    EXPECT_FALSE(tensor.unique());
    EXPECT_EQ(tensor.storage_id(), rows.storage_id());
    EXPECT_EQ(device->memory().in_use, kMiB);
  }
  EXPECT_EQ(device->memory().in_use, 0u);
}

TEST(Tensor, SlicesShareTheMemory) {
  const auto device = make_guarded_device(8 * kMiB);
  const Tensor matrix =
      Tensor::from_host(*device, {3, 4}, std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  EXPECT_EQ(to_host(matrix.slice_rows(1, 1)), (std::vector<float>{4, 5, 6, 7}));
  const Tensor columns = matrix.slice_columns(1, 2);
  EXPECT_FALSE(columns.contiguous());
  EXPECT_EQ(to_host(columns), (std::vector<float>{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(to_host(columns.slice_rows(1, 2)), (std::vector<float>{5, 6, 9, 10}));
  EXPECT_EQ(to_host(columns.slice_columns(1, 1)), (std::vector<float>{2, 6, 10}));
  copy_from_host(columns, std::vector<float>{-1, -2, -5, -6, -9, -10});
  EXPECT_EQ(to_host(matrix), (std::vector<float>{0, -1, -2, 3, 4, -5, -6, 7, 8, -9, -10, 11}));
  EXPECT_EQ(to_host(matrix.view({2, 2, 3}).slice_rows(1, 1)),
            (std::vector<float>{-6, 7, 8, -9, -10, 11}));
}

TEST(Tensor, RefusesWhatIsOutOfRange) {
  const auto device = make_cpu_device(8 * kMiB);
  const Tensor matrix = Tensor::zeros(*device, {3, 4});
  EXPECT_THROW(matrix.slice_rows(2, 2), Error);
  EXPECT_THROW(matrix.slice_columns(-1, 2), Error);
  EXPECT_THROW(matrix.view({5, 2}), Error);
  EXPECT_THROW(matrix.slice_columns(0, 2).view({6}), Error);
  EXPECT_THROW(copy_from_host(matrix, std::vector<float>(11)), Error);
  EXPECT_THROW(copy_from_host(matrix, std::vector<std::int32_t>(12)), Error);
  EXPECT_THROW(to_host_i32(matrix), Error);
  EXPECT_THROW(Tensor().device(), Error);
}

TEST(Tensor, RoundsToBf16ToNearestEven) {
  const auto device = make_cpu_device(8 * kMiB);
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values{1.0f,     1.00390625f, 1.01171875f,  1.0039064f,
                                  -3.4e38f, infinity,    std::nanf("")};
  const Tensor narrow = Tensor::empty(*device, {7}, DType::bf16);
  copy_from_host(narrow, values);
  const std::vector<float> back = to_host(narrow);
  EXPECT_EQ(back[0], 1.0f);
  EXPECT_EQ(back[1], 1.0f);        // halfway, to the even one below
  EXPECT_EQ(back[2], 1.015625f);   // halfway, to the even one above
  EXPECT_EQ(back[3], 1.0078125f);  // just past halfway
  EXPECT_EQ(back[4], -infinity);
  EXPECT_EQ(back[5], infinity);
  EXPECT_TRUE(std::isnan(back[6]));
}

// The promise that a device with memory of its own will rest on.
TEST(GuardedDeviceDeathTest, KillsHostCodeThatTouchesATensor) {
  const auto device = make_guarded_device(8 * kMiB);
  const Tensor tensor = Tensor::from_host(*device, {2}, std::vector<float>{3, 4});
  const volatile float* memory = tensor.ptr<float>();
  EXPECT_DEATH(static_cast<void>(memory[1]), "");
  {
    const KernelScope scope(*device);
    const KernelScope nested(*device);
    EXPECT_EQ(memory[1], 4.0f);
  }
  EXPECT_DEATH(static_cast<void>(memory[1]), "");
  EXPECT_EQ(to_host(tensor), (std::vector<float>{3, 4}));
}

}  // namespace
}  // namespace fathom
