#include "launch/options/diagnose_moc.h"

#include <iostream>

#include "core/log.h"
#include "diagnose/moc/norms.h"
#include "launch/commands/diagnose.h"
#include "launch/commands/source.h"

namespace fathom::launch {

int diagnose_moc(const options::Arguments& arguments) {
  const options::DiagnoseMocRequest request = options::parse_diagnose_moc(arguments);
  if (request.reply) {
    std::cout << *request.reply;
    return 0;
  }
  const std::filesystem::path checkpoint = find_checkpoint(request.checkpoint);
  const diagnose::moc::Controls controls = diagnose::moc::read_controls(checkpoint);
  diagnose::Report report;
  report.facts = {{"checkpoint", checkpoint.string()},
                  {"method", controls.moc ? "mixture of control" : "Parallel Control"},
                  {"rank", controls.rank},
                  {"alpha", controls.alpha}};
  diagnose::moc::report_norms(controls, report);
  diagnose::write_report(request.output, report);
  std::cout << diagnose::summary_text(report);
  log_info("wrote ", request.output);
  return report.exit_code();
}

}  // namespace fathom::launch
