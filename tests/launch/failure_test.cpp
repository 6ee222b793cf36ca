// What is told of an exception, and the exit code that it means.

#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <new>

#include "launch/session.h"
#include "tests/support/temporary_directory.h"

namespace fathom::launch {
namespace {

Failure failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (...) {
    return current_failure();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(CurrentFailure, OurOwnErrorsSayThemselves) {
  const Failure failure = failure_of([] { fail(ErrorKind::data, "tokens.h5: record ", 7); });
  EXPECT_EQ(failure.kind, ErrorKind::data);
  EXPECT_EQ(failure.message, "data error: tokens.h5: record 7");
}

TEST(CurrentFailure, FilesOfTheStandardLibraryAreFiles) {
  const testing::TemporaryDirectory folder;
  const Failure failure =
      failure_of([&] { std::filesystem::copy_file(folder / "nowhere", folder / "copy"); });
  EXPECT_EQ(failure.kind, ErrorKind::io);
  EXPECT_EQ(failure.message.rfind("file error: cannot copy file: No such file", 0), 0u)
      << failure.message;
  EXPECT_NE(failure.message.find((folder / "nowhere").string()), std::string::npos)
      << failure.message;
}

TEST(CurrentFailure, MemoryThatCannotBeHad) {
  const Failure failure = failure_of([] { throw std::bad_alloc(); });
  EXPECT_EQ(failure.kind, ErrorKind::config);
  EXPECT_NE(failure.message.find("out of host memory"), std::string::npos) << failure.message;
}

TEST(CurrentFailure, AnythingElseIsABrokenPromise) {
  EXPECT_EQ(failure_of([] { throw std::logic_error("vector::at"); }).message,
            "internal error: vector::at");
  EXPECT_EQ(failure_of([] { throw 7; }).kind, ErrorKind::internal);
}

}  // namespace
}  // namespace fathom::launch
