#include "core/files.h"

#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace fathom {
namespace {

using testing::expect_error;
using testing::TemporaryDirectory;

TEST(Files, AtomicWriteReplacesAndLeavesNoTemporary) {
  const TemporaryDirectory folder;
  files::write_text_atomically(folder / "a", "one");
  files::write_text_atomically(folder / "a", "two\n");
  EXPECT_EQ(files::read_text(folder / "a"), "two\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.tmp"));
}

TEST(Files, ErrorsNameThePathAndTheReason) {
  const TemporaryDirectory folder;
  expect_error(
      ErrorKind::io, [&] { files::read_text(folder / "absent"); }, "absent", "No such file");
  expect_error(
      ErrorKind::io, [&] { files::read_text(folder.path()); }, "read", "Is a directory");
  expect_error(
      ErrorKind::io, [&] { files::rename_file(folder / "x", folder / "y"); }, "rename", "/x", "/y");
  expect_error(
      ErrorKind::io, [&] { files::sync_directory(folder / "none"); }, "none");
}

TEST(Files, WhatCannotBeWrittenIsKnownBefore) {
  const TemporaryDirectory folder;
  files::write_text_atomically(folder / "a", "old");
  files::check_writable(folder / "a");
  files::check_writable(folder / "new");
  EXPECT_EQ(files::read_text(folder / "a"), "old");
  const auto entries = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "nothing is left behind";
  expect_error(
      ErrorKind::io, [&] { files::check_writable(folder / "none" / "a"); }, "none/a", "no folder");
  expect_error(
      ErrorKind::io, [&] { files::check_writable(folder.path()); }, "it is a folder");
  expect_error(
      ErrorKind::io, [&] { files::check_writable(folder / std::string(300, 'x')); }, "xxx",
      "too long");
}

TEST(Files, FullDiskIsAnErrorAndKeepsTheOldText) {
  const TemporaryDirectory folder;
  files::write_text_atomically(folder / "a", "old");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 1000;
  setrlimit(RLIMIT_FSIZE, &small);
  expect_error(
      ErrorKind::io, [&] { files::write_text_atomically(folder / "a", std::string(5000, 'x')); },
      "5000 bytes", "File too large", "a.tmp");
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(files::read_text(folder / "a"), "old");
}

}  // namespace
}  // namespace fathom
