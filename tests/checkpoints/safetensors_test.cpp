#include "checkpoints/safetensors.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <numeric>
#include <sys/resource.h>

#include "core/files.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace fathom::checkpoints {
namespace {

using testing::expect_error;
using testing::TemporaryDirectory;

/// Written by the Python package: an independent witness of the format.
const std::filesystem::path kPythonFile =
    std::filesystem::path(FATHOM_TEST_DATA) / "checkpoints/python.safetensors";

std::vector<float> ramp(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

/// A file with this header text, `data_bytes` zero bytes, and a header length of its own if wanted.
void write_raw(const std::filesystem::path& path, const std::string& header, std::size_t data_bytes,
               std::uint64_t length = ~0ull) {
  if (length == ~0ull) length = header.size();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), 8);
  out << header << std::string(data_bytes, '\0');
}

void fill_ramp(const SafetensorsPlan& plan, SafetensorsSink& sink) {
  sink.put(ramp(static_cast<std::size_t>(element_count(plan.shape))));
}

TEST(Safetensors, ReadsWhatPythonWrote) {
  const SafetensorsReader reader(kPythonFile);
  EXPECT_EQ(reader.tensors().size(), 10u);
  EXPECT_EQ(reader.metadata().at("note"), "naïve");
  auto single = ramp(24);
  for (float& x : single) x /= 8;
  EXPECT_EQ(reader.read_f32("single"), single);
  EXPECT_EQ(reader.at("single").shape, (Shape{2, 3, 4}));
  const auto half = reader.read_f32("half");
  EXPECT_EQ(std::vector<float>(half.begin(), half.end() - 1),
            (std::vector<float>{0, 0, 1, 65504, 0x1p-24f, 1023 * 0x1p-24f, INFINITY}));
  EXPECT_TRUE(std::signbit(half[1]));
  EXPECT_TRUE(std::isnan(half[7]));
  EXPECT_EQ(reader.read_f32("brain")[0], 1.5f);
  EXPECT_EQ(reader.read_f32("double"), (std::vector<float>{0.1f, -2.0f}));
  EXPECT_EQ(reader.read_f32("scalar"), std::vector<float>{2.5f});
  EXPECT_TRUE(reader.read_f32("none").empty());
  EXPECT_EQ(reader.read_i64("wide"), (std::vector<std::int64_t>{-(1ll << 60), 5}));
  EXPECT_EQ(reader.read_i64("word"), (std::vector<std::int64_t>{7, -7}));
  EXPECT_EQ(reader.read_i64("byte"), (std::vector<std::int64_t>{255, 1, 0}));
  EXPECT_EQ(reader.read_i64("flag"), (std::vector<std::int64_t>{1, 0}));
  expect_error(
      ErrorKind::data, [&] { reader.read_f32("word"); }, "word", "I32");
  expect_error(
      ErrorKind::data, [&] { reader.read_i64("half"); }, "half", "F16");
}

TEST(Safetensors, EveryHalfConvertsToTheValueItsBitsMean) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31),
              fraction = static_cast<int>(bits & 1023);
    const double magnitude = exponent == 0    ? std::ldexp(fraction, -24)
                             : exponent == 31 ? INFINITY
                                              : std::ldexp(1024 + fraction, exponent - 25);
    const float value = half_to_float(static_cast<std::uint16_t>(bits));
    if (exponent == 31 && fraction != 0) {
      EXPECT_TRUE(std::isnan(value)) << bits;
    } else {
      EXPECT_EQ(value, static_cast<float>(bits & 0x8000 ? -magnitude : magnitude)) << bits;
    }
    EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
  }
}

TEST(Safetensors, BoxesAreCopiedAndConverted) {
  const TemporaryDirectory folder;
  write_safetensors(folder / "a.safetensors",
                    {{"b", Element::bf16, {4, 6}}, {"f", Element::f32, {4, 6}}}, fill_ramp);
  const SafetensorsReader reader(folder / "a.safetensors");
  const Rectangle box{{1, 2}, {2, 3}};
  std::vector<float> out(6);
  for (const char* name : {"b", "f"}) {
    reader.read(name, box, out.data());
    EXPECT_EQ(out, (std::vector<float>{8, 9, 10, 14, 15, 16})) << name;
  }
  std::vector<bf16> narrow(6);
  reader.read("f", box, narrow.data());
  EXPECT_EQ(to_float(narrow[5]), 16.0f);
  expect_error(
      ErrorKind::data,
      [&] {
        reader.read("f", {{3, 0}, {2, 6}}, out.data());
      },
      "a.safetensors", "'f'", "[4, 6]", "[2, 6] at [3, 0]");
  expect_error(
      ErrorKind::data,
      [&] {
        reader.at("f", {6, 4});
      },
      "'f'", "[4, 6]", "[6, 4]");
  expect_error(
      ErrorKind::data, [&] { reader.at("g"); }, "a.safetensors", "no tensor 'g'");
}

TEST(Safetensors, ShardsAndTheirIndex) {
  const TemporaryDirectory folder;
  const std::vector<SafetensorsPlan> plan = {{"x.weight", Element::f32, {10}},
                                             {"y.weight", Element::f32, {10}},
                                             {"z.weight", Element::f32, {30}}};
  files::write_text_atomically(folder / "model.safetensors", "left from an earlier export");
  write_safetensors_folder(folder.path(), plan, fill_ramp, 80);
  EXPECT_FALSE(std::filesystem::exists(folder / "model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder / "model-00002-of-00002.safetensors"));
  {
    const SafetensorsReader reader(folder.path());
    EXPECT_EQ(reader.files().size(), 2u);
    EXPECT_EQ(reader.read_f32("z.weight"), ramp(30));
    expect_error(
        ErrorKind::data, [&] { reader.at("model.z.weight"); }, "'z.weight'");
  }
  std::filesystem::rename(folder / "model-00002-of-00002.safetensors", folder / "aside");
  expect_error(
      ErrorKind::io, [&] { SafetensorsReader r(folder.path()); }, "index.json",
      "model-00002-of-00002.safetensors", "missing");
  std::filesystem::copy(folder / "model-00001-of-00002.safetensors",
                        folder / "model-00002-of-00002.safetensors");
  expect_error(
      ErrorKind::data, [&] { SafetensorsReader r(folder.path()); }, "'x.weight'", "is also in");
  write_safetensors_folder(folder.path(), plan, fill_ramp);
  EXPECT_EQ(SafetensorsReader(folder.path()).files().size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder / "model.safetensors.index.json"));
}

TEST(Safetensors, DamagedFilesAreRefusedWithTheReason) {
  const TemporaryDirectory folder;
  const auto path = folder / "bad.safetensors";
  const auto refuse = [&](const std::string& header, std::size_t bytes, const std::string& reason) {
    write_raw(path, header, bytes);
    expect_error(
        ErrorKind::data, [&] { SafetensorsReader r(path); }, "bad.safetensors", reason);
  };
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  write_raw(path, good, 8);
  EXPECT_NO_THROW(SafetensorsReader r(path));
  refuse(good, 7, "truncated");
  refuse(good, 9, "1 bytes behind the last tensor");
  refuse("{", 0, "not valid JSON");
  refuse("[]", 0, "not a JSON object");
  refuse(R"({"a":{"dtype":"F32","shape":[2]}})", 8, "tensor 'a'");
  refuse(R"({"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}})", 8, "'Q4'");
  refuse(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "which takes 12");
  refuse(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "impossible shape");
  refuse(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4,2],"data_offsets":[0,0]}})", 8,
         "impossible shape");
  refuse(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", 8, "data_offsets");
  refuse(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
         R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
         12, "overlaps");
  refuse(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12, "gap");
  refuse(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
         R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
         0, "'a' occurs twice");
  refuse(R"({"__metadata__":{"k":1}})", 0, "'k' is not a text");
  write_raw(path, good, 8, 1ull << 40);
  expect_error(
      ErrorKind::data, [&] { SafetensorsReader r(path); }, "header of 1099511627776");
  files::write_text_atomically(path, "short");
  expect_error(
      ErrorKind::data, [&] { SafetensorsReader r(path); }, "too short");
  expect_error(
      ErrorKind::io, [&] { SafetensorsReader r(folder / "absent.safetensors"); }, "absent",
      "No such file");
  std::filesystem::create_directory(folder / "empty");
  expect_error(
      ErrorKind::io, [&] { SafetensorsReader r(folder / "empty"); }, "model.safetensors");
}

TEST(Safetensors, EveryTruncationOfARealFileIsRefused) {
  const TemporaryDirectory folder;
  const std::string bytes = files::read_text(kPythonFile);
  for (std::size_t n = 0; n < bytes.size(); n += 7) {
    std::ofstream(folder / "cut.safetensors", std::ios::binary) << bytes.substr(0, n);
    EXPECT_THROW(SafetensorsReader r(folder / "cut.safetensors"), Error) << n;
  }
}

TEST(Safetensors, FailedWritesKeepTheOldFile) {
  const TemporaryDirectory folder;
  const auto path = folder / "a.safetensors";
  const std::vector<SafetensorsPlan> plan = {{"x", Element::f32, {1000}}};
  write_safetensors(path, plan, fill_ramp);
  const auto half = [](const SafetensorsPlan&, SafetensorsSink& sink) { sink.put(ramp(500)); };
  expect_error(
      ErrorKind::internal, [&] { write_safetensors(path, plan, half); }, "'x'", "lacks 2000");
  const auto too_much = [](const SafetensorsPlan&, SafetensorsSink& sink) { sink.put(ramp(1001)); };
  expect_error(
      ErrorKind::internal, [&] { write_safetensors(path, plan, too_much); }, "too many");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 1000;
  setrlimit(RLIMIT_FSIZE, &small);
  expect_error(
      ErrorKind::io, [&] { write_safetensors(path, plan, fill_ramp); }, "a.safetensors",
      "File too large");
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(SafetensorsReader(path).read_f32("x"), ramp(1000));
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".tmp"));
}

}  // namespace
}  // namespace fathom::checkpoints
