#include "data/token_file.h"

#include <fstream>

#include "core/h5.h"
#include "data/fingerprint.h"
#include "data/token_file_layout.h"
#include "token_fixture.h"

namespace fathom::data {
namespace {

class TokenFiles : public TokenFixture {};

// Writes the arrays as given, whatever they hold, with a fingerprint that matches them: the
// reader's own checks, not the hash, must find the fault.
struct RawFile {
  std::vector<std::int32_t> ids{1, 2, 3, 4, 5};
  std::vector<std::int64_t> offsets{0, 2, 5};
  std::vector<std::int32_t> prompt_lengths{0, 1};
  std::vector<std::int64_t> sources{0, 1};
  TokenFileInfo info;
  std::int64_t version = 1;
  bool honest_hash = true;

  std::filesystem::path write(const std::filesystem::path& path) const {
    h5::File file = h5::File::create(path);
    file.set_attribute("/", layout::kFormat, std::string_view(layout::kFormatName));
    file.set_attribute("/", layout::kVersion, version);
    file.set_attribute("/", layout::kVocabSize, std::int64_t{info.vocab_size});
    file.set_attribute("/", layout::kEosId, std::int64_t{info.eos_id});
    file.set_attribute("/", layout::kBlock, info.block);
    file.set_attribute("/", layout::kTemplateName, info.template_name);
    file.set_attribute("/", layout::kTokenizer, info.tokenizer);
    file.set_attribute("/", layout::kTemplateText, info.template_text);
    file.set_attribute("/", layout::kSource, std::string_view("3"));
    Fingerprint ids_hash;
    ids_hash.update(std::span<const std::int32_t>(ids));
    TokenFileInfo hashed = info;
    hashed.source = "3";
    const std::string honest =
        layout::content_fingerprint(hashed, ids_hash.hex(), offsets, prompt_lengths, sources);
    file.set_attribute("/", layout::kContent, honest_hash ? honest : std::string("0"));
    file.write(layout::kIds, ids);
    file.write(layout::kOffsets, offsets);
    file.write(layout::kPromptLengths, prompt_lengths);
    file.write(layout::kSources, sources);
    file.close();
    return path;
  }
};

TEST(Fingerprint, IsXxh64) {
  // Reference values of the published algorithm, seed 0.
  EXPECT_EQ(fingerprint_of(""), "ef46db3751d8e999");
  EXPECT_EQ(fingerprint_of("abc"), "44bc2cf5ad770999");
  Fingerprint parts;
  parts.update("a");
  parts.update("bc");
  EXPECT_EQ(parts.hex(), "44bc2cf5ad770999");
}

TEST_F(TokenFiles, RoundTrip) {
  const auto records = growing(40);
  const TokenFile file = TokenFile::open(write(records));
  ASSERT_EQ(file.records(), 40);
  for (std::int64_t r = 0; r < 40; ++r) {
    const PlainRecord& expected = records[static_cast<std::size_t>(r)];
    const TokenRecord record = file.record(r);
    EXPECT_EQ(std::vector<std::int32_t>(record.ids.begin(), record.ids.end()), expected.ids);
    EXPECT_EQ(record.prompt_length, expected.prompt_length);
    EXPECT_EQ(file.length(r), static_cast<std::int64_t>(expected.ids.size()));
    EXPECT_EQ(file.source(r), expected.source);
  }
  EXPECT_EQ(file.info().vocab_size, 100);
  EXPECT_EQ(file.info().eos_id, 0);
  EXPECT_EQ(file.info().template_name, "plain");
  EXPECT_EQ(file.info().source, "3333333333333333");
  EXPECT_THROW(file.record(40), std::out_of_range);
}

TEST_F(TokenFiles, FingerprintFollowsContentAndOrder) {
  auto records = growing(10);
  const std::string first = TokenFile::open(write(records, "a.h5")).info().content;
  EXPECT_EQ(TokenFile::open(write(records, "b.h5")).info().content, first);
  std::swap(records[3], records[4]);
  EXPECT_NE(TokenFile::open(write(records, "c.h5")).info().content, first);
  records = growing(10);
  records[5].prompt_length = 1;
  EXPECT_NE(TokenFile::open(write(records, "d.h5")).info().content, first);
}

TEST_F(TokenFiles, NothingAppearsBeforeFinish) {
  {
    TokenFileWriter writer(folder_ / "t.h5", info());
    writer.append(std::vector<std::int32_t>{1, 2}, 0);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "t.h5"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  write(growing(3), "t.h5");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(TokenFiles, WriterRefusesBadRecords) {
  TokenFileWriter writer(folder_ / "t.h5", info());
  const auto append = [&](std::vector<std::int32_t> ids, std::int32_t prompt) {
    return [&writer, ids, prompt] { writer.append(ids, prompt); };
  };
  expect_error(ErrorKind::data, {"record 0", "1 ids"}, append({1}, 0));
  expect_error(ErrorKind::data, {"record 0", "prompt length 2"}, append({1, 2}, 2));
  expect_error(ErrorKind::data, {"record 0", "prompt length -1"}, append({1, 2}, -1));
  expect_error(ErrorKind::data, {"id 100", "99"}, append({1, 100}, 0));
  expect_error(ErrorKind::data, {"id -1"}, append({-1, 1}, 0));
  expect_error(ErrorKind::data, {"no record"}, [&] { writer.finish("3"); });
}

TEST_F(TokenFiles, WriterReportsAnUnwritableFolder) {
  expect_error(ErrorKind::io, {"nowhere", "No such file"},
               [&] { TokenFileWriter writer(folder_ / "nowhere" / "t.h5", info()); });
}

// Made by tests/data/token_files/make.py with h5py and xxhash: layout and fingerprint agree with an
// independent writer, and compressed ids, which cannot be mapped, are read.
TEST(TokenFile, ReadsWhatH5pyWrote) {
  const TokenFile file = TokenFile::open(FATHOM_TEST_DATA "/token_files/h5py.h5");
  ASSERT_EQ(file.records(), 3);
  const TokenRecord record = file.record(0);
  EXPECT_EQ(std::vector<std::int32_t>(record.ids.begin(), record.ids.end()),
            (std::vector<std::int32_t>{5, 6, 7, 1}));
  EXPECT_EQ(record.prompt_length, 2);
  EXPECT_EQ(file.source(2), -1);
  EXPECT_EQ(file.info().template_name, "alpaca");
  EXPECT_EQ(file.info().source, "00112233445566cc");
}

TEST_F(TokenFiles, ReaderNamesWhatIsWrong) {
  const auto open = [&](const std::function<void(RawFile&)>& spoil) {
    return [&, spoil] {
      RawFile raw;
      raw.info = info();
      spoil(raw);
      TokenFile::open(raw.write(folder_ / "bad.h5"));
    };
  };
  const auto expect = [&](const std::vector<std::string>& parts, const auto& spoil) {
    auto all = parts;
    all.push_back("bad.h5");
    expect_error(ErrorKind::data, all, open(spoil));
  };
  expect({"version 2", "reads 1"}, [](RawFile& f) { f.version = 2; });
  expect({"no record"}, [](RawFile& f) {
    f.ids.clear();
    f.offsets = {0};
    f.prompt_lengths.clear();
    f.sources.clear();
  });
  expect({"offsets run from 0 to 4"}, [](RawFile& f) { f.offsets = {0, 2, 4}; });
  expect({"record 1", "4 to 5"}, [](RawFile& f) { f.offsets = {0, 4, 5}; });
  expect({"record 0", "0 to 7"}, [](RawFile& f) { f.offsets = {0, 7, 5}; });
  expect({"record 0", "0 to -9"}, [](RawFile& f) { f.offsets = {0, -9, 5}; });
  expect({"3 offsets", "3 prompt lengths"}, [](RawFile& f) { f.prompt_lengths = {0, 0, 0}; });
  expect({"1 sources"}, [](RawFile& f) { f.sources = {0}; });
  expect({"record 1", "prompt length 3", "0 to 2"}, [](RawFile& f) { f.prompt_lengths = {0, 3}; });
  expect({"record 1", "id 100", "offset 3", "0 to 99"}, [](RawFile& f) { f.ids[3] = 100; });
  expect({"record 0", "id -4"}, [](RawFile& f) { f.ids[1] = -4; });
  expect({"vocab_size 0"}, [](RawFile& f) { f.info.vocab_size = 0; });
  expect({"fingerprint", "changed or damaged"}, [](RawFile& f) { f.honest_hash = false; });
}

TEST_F(TokenFiles, RefusesOtherFiles) {
  expect_error(ErrorKind::io, {"absent.h5", "no such"},
               [&] { TokenFile::open(folder_ / "absent.h5"); });
  std::ofstream(folder_ / "text.h5") << "not HDF5";
  expect_error(ErrorKind::data, {"text.h5", "truncated"},
               [&] { TokenFile::open(folder_ / "text.h5"); });
  h5::File other = h5::File::create(folder_ / "other.h5");
  other.close();
  expect_error(ErrorKind::data, {"other.h5", "'format' is missing"},
               [&] { TokenFile::open(folder_ / "other.h5"); });
}

TEST_F(TokenFiles, EveryTruncationIsFound) {
  const auto path = write(growing(30));
  const auto size = std::filesystem::file_size(path);
  for (std::uintmax_t keep :
       {size - 1, size - 64, size / 2, std::uintmax_t{100}, std::uintmax_t{0}}) {
    const auto copy = folder_ / "cut.h5";
    std::filesystem::copy_file(path, copy, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(copy, keep);
    expect_error(ErrorKind::data, {"cut.h5"}, [&] { TokenFile::open(copy); });
  }
}

TEST_F(TokenFiles, IndexCheckLeavesTheIdsAlone) {
  RawFile raw;
  raw.info = info();
  raw.ids[3] = 100;
  const auto path = raw.write(folder_ / "bad.h5");
  EXPECT_EQ(TokenFile::open(path, TokenFile::Check::index).records(), 2);
}

TEST_F(TokenFiles, MovesKeepTheMapping) {
  TokenFile first = TokenFile::open(write(growing(5)));
  const TokenFile second = std::move(first);
  EXPECT_EQ(second.record(4).ids[0], 4);
}

}  // namespace
}  // namespace fathom::data
