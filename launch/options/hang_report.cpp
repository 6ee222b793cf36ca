#include "launch/options/hang_report.h"

namespace fathom::options {

const Command hang_report_command = {.name = "hang-report",
                                     .usage = "fathom hang-report RUN",
                                     .summary = "Say which rank a run that hung was waiting for.",
                                     .example = "fathom hang-report runs/quickstart"};

HangReportRequest parse_hang_report(const Arguments& arguments) {
  return parse_request<HangReportRequest>(
      hang_report_command, arguments, [](OptionTable& t, HangReportRequest& r) {
        t.section("", "What to read:");
        t.add("run", r.run,
              {.help = "Run folder, whose newest reports are read, or one folder of its hang/.",
               .unit = "folder",
               .required = true,
               .position = 0});
      });
}

}  // namespace fathom::options
