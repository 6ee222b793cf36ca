#include "launch/options/hang_report.h"

#include <iostream>

#include "comm/hang_report.h"
#include "launch/commands/commands.h"

namespace fathom::launch {

int hang_report_command(const Arguments& arguments) {
  const options::HangReportRequest request = options::parse_hang_report(arguments);
  if (request.reply) {
    std::cout << *request.reply;
    return 0;
  }
  const std::filesystem::path given(request.run);
  const bool inside = given.parent_path().filename() == "hang";
  const auto folder = inside ? given : comm::newest_hang(given);
  std::cout << folder.string() << "\n" << comm::merge_reports(comm::read_reports(folder));
  return 0;
}

}  // namespace fathom::launch
