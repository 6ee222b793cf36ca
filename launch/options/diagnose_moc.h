#pragma once

#include <optional>
#include <string>

#include "launch/options/command_line.h"
#include "launch/options/shared.h"

namespace fathom::options {

/// `fathom diagnose moc`: what the controls of a run can do to the states that they are added to,
/// and on some text what they do. One rank, whatever grid wrote the checkpoint.
struct DiagnoseMocRequest {
  std::string checkpoint;      ///< checkpoint folder, or a run folder (its newest checkpoint)
  std::string text;            ///< one text; this or `data`, or neither: operator norms alone
  std::string data;            ///< tokens.h5
  bool any_tokenizer = false;  ///< whatever made the token file
  int records = 16;            ///< of `data`, from its start
  int batch = 1;               ///< records that go through the model together
  int context = 0;             ///< tokens that are kept of a record; 0: what the model allows
  std::string against;         ///< another run of the same model; may be empty
  int probes = 16;             ///< 0 leaves Jacobians out
  int iterations = 20;         ///< of the power method, at most
  int jacobian_tokens = 128;   ///< that Jacobians are taken of
  std::string output;          ///< folder of the report
  Machine machine;
  std::optional<std::string> reply;  ///< the --help page

  bool reads_text() const { return !text.empty() || !data.empty(); }
};

extern const Command diagnose_moc_command;

/// Throws Error(usage) or Error(config).
DiagnoseMocRequest parse_diagnose_moc(const Arguments& arguments);

}  // namespace fathom::options
