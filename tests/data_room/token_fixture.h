#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/token_file.h"

namespace fathom::data {

struct PlainRecord {
  std::vector<std::int32_t> ids;
  std::int32_t prompt_length = 0;
  std::int64_t source = -1;
};

/// A folder of this test's own, removed at its end.
class TokenFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("fathom-") + test->test_suite_name() + "-" + test->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static TokenFileInfo info(std::int32_t vocab_size = 100) {
    TokenFileInfo info;
    info.vocab_size = vocab_size;
    info.eos_id = 0;
    info.template_name = "plain";
    info.tokenizer = "1111111111111111";
    info.template_text = "2222222222222222";
    return info;
  }

  std::filesystem::path write(const std::vector<PlainRecord>& records,
                              const std::string& name = "tokens.h5") const {
    TokenFileWriter writer(folder_ / name, info());
    for (const PlainRecord& r : records) writer.append(r.ids, r.prompt_length, r.source);
    writer.finish("3333333333333333");
    return folder_ / name;
  }

  std::shared_ptr<const TokenFile> open(const std::vector<PlainRecord>& records) const {
    return std::make_shared<const TokenFile>(TokenFile::open(write(records)));
  }

  /// Records of 2, 3, ... ids: record r holds r, r + 1, ... and has a prompt of r % 3 ids.
  static std::vector<PlainRecord> growing(int count) {
    std::vector<PlainRecord> records;
    for (int r = 0; r < count; ++r) {
      PlainRecord record;
      for (int i = 0; i < r + 2; ++i) record.ids.push_back((r + i) % 100);
      record.prompt_length = r % 3 < r + 2 ? r % 3 : 0;
      record.source = 10 * r;
      records.push_back(record);
    }
    return records;
  }

  std::filesystem::path folder_;
};

/// Expects an Error of the kind whose text holds every part.
inline void expect_error(ErrorKind kind, const std::vector<std::string>& parts,
                         const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' not in: " << error.what();
    }
  }
}

}  // namespace fathom::data
