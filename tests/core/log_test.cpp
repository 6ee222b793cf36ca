#include "core/log.h"

#include <gtest/gtest.h>
#include <sstream>
#include <thread>

namespace fathom {
namespace {

TEST(Logger, AloneItSpeaksWithoutARank) {
  std::ostringstream out;
  Logger log(out);
  log.info("hello");
  log.warn("careful");
  EXPECT_EQ(out.str(), "hello\nwarning: careful\n");
}

TEST(Logger, AmongManyOnlyRankZeroInformsAndEveryRankWarns) {
  std::ostringstream out;
  Logger log(out);
  log.set_rank(2, 4);
  log.info("hello");
  log.warn("careful");
  log.set_rank(0, 4);
  log.info("hello");
  EXPECT_EQ(out.str(), "rank 2: warning: careful\nhello\n");
}

TEST(Logger, QuietKeepsWarnings) {
  std::ostringstream out;
  Logger log(out);
  log.set_quiet(true);
  log.info("hello");
  log.warn("careful");
  EXPECT_EQ(out.str(), "warning: careful\n");
}

TEST(Logger, LinesAppearAboveTheStatus) {
  std::ostringstream out;
  Logger log(out);
  log.end_status();
  EXPECT_EQ(out.str(), "");
  log.status("step 1");
  log.info("hello");
  log.status("step 2");
  log.end_status();
  log.info("done");
  const std::string erase = "\r\x1b[K";
  EXPECT_EQ(out.str(), erase + "step 1" + erase + "hello\n" + erase + "step 1" + erase + "step 2" +
                           "\n" + "done\n");
}

TEST(Logger, AStatusNeverReachesTheLastColumn) {
  std::ostringstream out;
  Logger log(out);
  log.status(std::string(5000, 'x'));
  EXPECT_EQ(out.str().size(), std::string("\r\x1b[K").size() + terminal_width() - 1);
}

TEST(Logger, LinesOfSeveralThreadsStayWhole) {
  std::ostringstream out;
  Logger log(out);
  constexpr int count = 200;
  const auto write = [&](const std::string& text) {
    for (int i = 0; i < count; ++i) log.info(text);
  };
  std::thread other(write, "aaaaaaaa");
  write("bbbbbbbb");
  other.join();
  std::istringstream in(out.str());
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines)
    EXPECT_TRUE(line == "aaaaaaaa" || line == "bbbbbbbb") << line;
  EXPECT_EQ(lines, 2 * count);
}

}  // namespace
}  // namespace fathom
