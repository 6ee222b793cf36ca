#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/options/command_line.h"
#include "train/config.h"

namespace fathom::options {

/// `fathom train`: a validated configuration, or a page to print instead of running.
struct TrainRequest {
  std::string recipe;  ///< INI file; empty when everything is on the command line
  bool dry_run = false;
  bool memory = false;  ///< one step, and what it kept
  bool print_config = false;
  train::TrainConfig config;
  std::optional<std::string> reply;  ///< the text of --help or --print-config
};

extern const Command train_command;

/// Reads recipe and command line and validates the result. Throws Error(usage) or Error(config); a
/// broken rule between keys is told with the value and the origin of each.
TrainRequest parse_train(const Arguments& arguments);

/// Describes every section of a recipe, bound to `config`.
void describe_train(OptionTable& table, train::TrainConfig& config);

/// The recipe that reproduces `config`: what --print-config shows and a checkpoint stores.
std::string to_text(const train::TrainConfig& config);

/// The inverse of to_text. `source` names the text in errors, such as the checkpoint's manifest.
train::TrainConfig config_from_text(const std::string& text, const std::string& source);

/// Throws Error(config) that lists every rule of `broken`, with value and origin of each key.
void refuse(const std::vector<train::Violation>& broken, const OptionTable& table);

/// A key whose value differs from the one stored in a checkpoint.
struct Change {
  std::string key;
  std::string was;
  std::string is;
  OnResume on_resume = OnResume::free;
};

/// All differences, in the order of the tables.
std::vector<Change> changes(const train::TrainConfig& stored, const train::TrainConfig& now);

/// Throws Error(config) that lists each change which a resumed run may not make without
/// run.accept_changes or run.reset_data. Returns the changes that are in order, for the log.
std::vector<Change> check_resume(const train::TrainConfig& stored, const train::TrainConfig& now);

}  // namespace fathom::options
