#include "core/h5.h"

#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <numeric>
#include <sys/file.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace fathom {
namespace {

using testing::expect_error;
using testing::TemporaryDirectory;

std::vector<float> ramp(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

TEST(H5, RoundTripOfEveryType) {
  const TemporaryDirectory folder;
  auto out = h5::File::create(folder / "all.h5");
  out.write("u8", std::vector<std::uint8_t>{0, 255});
  out.write("u16", std::vector<std::uint16_t>{0, 65535});
  out.write("i32", std::vector<std::int32_t>{-1, 1 << 30});
  out.write("u32", std::vector<std::uint32_t>{4000000000u});
  out.write("i64", std::vector<std::int64_t>{-(1ll << 60)});
  out.write("u64", std::vector<std::uint64_t>{~0ull});
  out.write("bf16", std::vector<bf16>{to_bf16(1.5f), to_bf16(-3e38f), {0x7fc1}});
  out.write("f32", std::vector<float>{1e-45f, -0.0f});
  out.write("deep/er/f64", std::vector<double>{0.1});
  out.close();

  const auto in = h5::File::open(folder / "all.h5");
  EXPECT_EQ(in.read<std::uint8_t>("u8"), (std::vector<std::uint8_t>{0, 255}));
  EXPECT_EQ(in.read<std::uint16_t>("u16"), (std::vector<std::uint16_t>{0, 65535}));
  EXPECT_EQ(in.read<std::int32_t>("i32"), (std::vector<std::int32_t>{-1, 1 << 30}));
  EXPECT_EQ(in.read<std::uint32_t>("u32"), (std::vector<std::uint32_t>{4000000000u}));
  EXPECT_EQ(in.read<std::int64_t>("i64"), (std::vector<std::int64_t>{-(1ll << 60)}));
  EXPECT_EQ(in.read<std::uint64_t>("u64"), (std::vector<std::uint64_t>{~0ull}));
  EXPECT_EQ(in.read<float>("f32"), (std::vector<float>{1e-45f, -0.0f}));
  EXPECT_EQ(in.read<double>("deep/er/f64"), (std::vector<double>{0.1}));
  EXPECT_EQ(in.read<bf16>("bf16")[2].bits, 0x7fc1) << "bits pass unchanged, NaN payload included";
  EXPECT_EQ(in.info("bf16").type, h5::Type::bf16);
  EXPECT_EQ(in.list(), (std::vector<std::string>{"bf16", "deep", "f32", "i32", "i64", "u16", "u32",
                                                 "u64", "u8"}));
}

TEST(H5, PartsAreRectangles) {
  const TemporaryDirectory folder;
  auto out = h5::File::create(folder / "parts.h5");
  out.create_dataset("x", h5::Type::f32, {4, 6});
  const auto values = ramp(12);
  out.write_part("x", h5::Type::f32, {0, 0}, {4, 3}, values.data());
  out.write_part("x", h5::Type::f32, {0, 3}, {4, 3}, values.data());
  out.close();

  const auto in = h5::File::open(folder / "parts.h5");
  EXPECT_EQ(in.info("x").shape, (h5::Shape{4, 6}));
  std::vector<float> part(4);
  in.read_part<float>("x", {1, 2}, {2, 2}, part);
  EXPECT_EQ(part, (std::vector<float>{5, 3, 8, 6}));
  expect_error(
      ErrorKind::data,
      [&] {
        in.read_part<float>("x", {3, 5}, {2, 2}, part);
      },
      "parts.h5", "'x'", "[4, 6]", "[3, 5]");
  expect_error(
      ErrorKind::data, [&] { in.read_part<float>("x", {1}, {4}, part); }, "[4, 6]");
  expect_error(
      ErrorKind::data,
      [&] {
        in.read_part<float>("x", {~0ull, 0}, {2, 2}, part);
      },
      "'x'");
  expect_error(
      ErrorKind::data, [&] { in.read<std::int32_t>("x"); }, "holds f32, not i32");
}

TEST(H5, ContiguousOffsetFindsTheBytes) {
  const TemporaryDirectory folder;
  auto out = h5::File::create(folder / "a.h5");
  out.write("x", ramp(100));
  out.write("none", std::vector<float>{});
  out.close();
  const auto in = h5::File::open(folder / "a.h5");
  const auto offset = in.contiguous_offset("x");
  ASSERT_TRUE(offset);
  std::ifstream bytes(folder / "a.h5", std::ios::binary);
  bytes.seekg(static_cast<std::streamoff>(*offset));
  std::vector<float> found(100);
  bytes.read(reinterpret_cast<char*>(found.data()), 400);
  EXPECT_EQ(found, ramp(100));
  EXPECT_FALSE(in.contiguous_offset("none"));
}

TEST(H5, EmptyAndScalarDatasets) {
  const TemporaryDirectory folder;
  auto out = h5::File::create(folder / "edge.h5");
  out.write("none", std::vector<float>{});
  const float one = 3.0f;
  out.write("scalar", h5::Type::f32, {}, &one);
  out.close();
  const auto in = h5::File::open(folder / "edge.h5");
  EXPECT_TRUE(in.read<float>("none").empty());
  EXPECT_EQ(in.info("none").shape, h5::Shape{0});
  EXPECT_EQ(in.read<float>("scalar"), std::vector<float>{3.0f});
}

TEST(H5, Attributes) {
  const TemporaryDirectory folder;
  auto out = h5::File::create(folder / "attributes.h5");
  out.create_group("a/b");
  out.set_attribute("/", "text", "old");
  out.set_attribute("/", "text", "naïve \n" + std::string(100000, 'x'));
  out.set_attribute("a/b", "empty", "");
  out.set_attribute("a/b", "n", std::int64_t{-5});
  out.set_attribute("a/b", "x", 0.25);
  expect_error(
      ErrorKind::data, [&] { out.set_attribute("/", "nul", std::string("a\0b", 3)); }, "nul",
      "NUL");
  out.close();
  const auto in = h5::File::open(folder / "attributes.h5");
  EXPECT_EQ(in.text_attribute("/", "text"), "naïve \n" + std::string(100000, 'x'));
  EXPECT_EQ(in.text_attribute("a/b", "empty"), "");
  EXPECT_EQ(in.int_attribute("a/b", "n"), -5);
  EXPECT_EQ(in.float_attribute("a/b", "x"), 0.25);
  EXPECT_TRUE(in.has_attribute("a/b", "n"));
  EXPECT_FALSE(in.has_attribute("/", "n"));
  EXPECT_TRUE(in.exists("a/b"));
  EXPECT_FALSE(in.exists("a/c"));
  EXPECT_FALSE(in.exists("c/d/e"));
  expect_error(
      ErrorKind::data, [&] { in.text_attribute("a/b", "n"); }, "a/b@n", "not a text");
  expect_error(
      ErrorKind::io, [&] { in.int_attribute("a/b", "m"); }, "a/b@m", "attributes.h5");
}

TEST(H5, ErrorsNameFileAndDataset) {
  const TemporaryDirectory folder;
  expect_error(
      ErrorKind::io, [&] { h5::File::open(folder / "absent.h5"); }, "absent.h5", "errno = 2");
  std::ofstream(folder / "text.h5") << "not a HDF5 file";
  expect_error(
      ErrorKind::io, [&] { h5::File::open(folder / "text.h5"); }, "text.h5");
  auto out = h5::File::create(folder / "a.h5");
  out.write("x", ramp(3));
  expect_error(
      ErrorKind::io, [&] { out.write("x", ramp(3)); }, "create dataset", "'x'", "a.h5");
  expect_error(
      ErrorKind::io, [&] { out.read<float>("y"); }, "'y'", "a.h5");
  out.close();
  out.close();
}

TEST(H5, OpensAFileThatAnotherDescriptorHoldsLocked) {
  const TemporaryDirectory folder;
  auto out = h5::File::create(folder / "locked.h5");
  out.write("x", ramp(3));
  out.close();
  const int holder = ::open((folder / "locked.h5").c_str(), O_RDWR);
  ASSERT_EQ(flock(holder, LOCK_EX), 0);
  EXPECT_EQ(h5::File::open(folder / "locked.h5").read<float>("x"), ramp(3));
  setenv("HDF5_USE_FILE_LOCKING", "TRUE", 1);
  EXPECT_NE(h5::library_description().find("HDF5_USE_FILE_LOCKING=TRUE"), std::string::npos);
  unsetenv("HDF5_USE_FILE_LOCKING");
  ::close(holder);
}

/// A limit on the size of files stands in for a full disk: the same failed write, without root.
TEST(H5, FullDiskIsOneErrorAndTheLibraryLivesOn) {
  const TemporaryDirectory folder;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  for (int round = 0; round < 3; ++round) {
    rlimit small = before;
    small.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_FSIZE, &small);
    auto out = h5::File::create(folder / "full.h5");
    expect_error(
        ErrorKind::io, [&] { out.write("big", ramp(1 << 20)); }, "'big'", "full.h5",
        "4194304 bytes", "errno = 27", "File too large");
    expect_error(
        ErrorKind::io, [&] { out.close(); }, "full.h5");
    out.close();
    setrlimit(RLIMIT_FSIZE, &before);

    auto good = h5::File::create(folder / (round == 1 ? "full.h5" : "good.h5"));
    good.write("big", ramp(1 << 20));
    good.close();
    EXPECT_EQ(h5::File::open(good.path()).read<float>("big"), ramp(1 << 20));
  }
}

TEST(H5, CompressedDatasetsReadBackAndAreSmaller) {
  const TemporaryDirectory folder;
  std::vector<std::uint16_t> values(2 * 20000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i / 3);
  const h5::Shape shape = {20000, 2};
  const std::span<const std::uint16_t> all(values);
  auto out = h5::File::create(folder / "x.h5");
  out.write("plain", shape, all);
  out.write("packed", shape, all, h5::Storage::compressed);
  out.write("short", {3, 2}, all.first(6), h5::Storage::compressed);
  out.write("empty", {0, 2}, all.first(0), h5::Storage::compressed);
  out.close();
  const auto in = h5::File::open(folder / "x.h5");
  EXPECT_EQ(in.read<std::uint16_t>("packed"), values);
  EXPECT_EQ(in.read<std::uint16_t>("short"), std::vector(values.begin(), values.begin() + 6));
  EXPECT_TRUE(in.read<std::uint16_t>("empty").empty());
  std::vector<std::uint16_t> part(2 * 5);
  in.read_part("packed", {8190, 0}, {5, 2}, std::span(part));  // across two chunks
  EXPECT_TRUE(std::equal(part.begin(), part.end(), values.begin() + 2 * 8190));
  EXPECT_TRUE(in.contiguous_offset("plain").has_value());
  EXPECT_FALSE(in.contiguous_offset("packed").has_value());
  EXPECT_LT(std::filesystem::file_size(folder / "x.h5"), 2 * values.size() * sizeof(values[0]));
}

TEST(H5, VirtualDatasetShowsPiecesAsOne) {
  const TemporaryDirectory folder;
  for (const std::string name : {"left", "right"}) {
    auto out = h5::File::create(folder / (name + ".h5"));
    out.write("part", {2, 2}, std::span<const float>(ramp(4)));
    out.close();
  }
  auto view = h5::File::create(folder / "view.h5");
  view.create_virtual("whole", h5::Type::f32, {2, 4},
                      {{"left.h5", "part", {0, 0}, {2, 2}}, {"right.h5", "part", {0, 2}, {2, 2}}});
  view.close();
  EXPECT_EQ(h5::File::open(folder / "view.h5").read<float>("whole"),
            (std::vector<float>{0, 1, 0, 1, 2, 3, 2, 3}));
}

TEST(H5, FilesMayBeUsedFromSeveralThreads) {
  const TemporaryDirectory folder;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        auto out = h5::File::create(folder / ("t" + std::to_string(t)));
        for (int d = 0; d < 10; ++d) out.write("d" + std::to_string(d), ramp(1000));
        EXPECT_THROW(out.read<float>("missing"), Error);
        out.close();
        EXPECT_EQ(h5::File::open(out.path()).read<float>("d9"), ramp(1000));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace fathom
