#include "launch/options/train.h"

#include <algorithm>

#include "launch/options/ini.h"

namespace fathom::options {
namespace {

std::string list_keys(const OptionTable& table, const std::vector<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys)
    text += (text.empty() ? "" : ", ") + table.describe_value(key);
  return text;
}

bool allowed(const Change& change, const train::RunConfig& run) {
  switch (change.on_resume) {
    case OnResume::free:
      return true;
    case OnResume::training:
      return run.accept_changes;
    case OnResume::data:
      return run.reset_data;
  }
  return false;
}

const char* way_out(OnResume on_resume) {
  return on_resume == OnResume::data ? "run.reset_data=true starts the sample order anew"
                                     : "run.accept_changes=true uses the new value";
}

// Sections of methods that nobody switched on or off, and that say more: their switch was
// forgotten. One that is off on purpose keeps what the recipe says, for the ablation.
std::vector<train::Violation> forgotten_switches(const OptionTable& table) {
  std::vector<train::Violation> broken;
  for (const Option& option : table.options()) {
    if (!option.name.ends_with(".enabled") || option.origin != default_origin) continue;
    const std::string section = option.name.substr(0, option.name.find('.') + 1);
    train::Violation violation{{option.name},
                               str("the method is off, and the rest would not be read: ",
                                   option.name, " = true, or = false to leave it off")};
    for (const Option& other : table.options())
      if (other.name.starts_with(section) && other.text() != other.default_text)
        violation.keys.push_back(other.name);
    if (violation.keys.size() > 1) broken.push_back(std::move(violation));
  }
  return broken;
}

// Those of the values, and those of how they were given.
std::vector<train::Violation> all_violations(const TrainRequest& request,
                                             const OptionTable& table) {
  std::vector<train::Violation> all = train::violations(request.config);
  for (train::Violation& broken : forgotten_switches(table)) {
    const auto said = [&](const train::Violation& other) {
      return other.keys.front() == broken.keys.front();
    };
    if (std::none_of(all.begin(), all.end(), said)) all.push_back(std::move(broken));
  }
  return all;
}

}  // namespace

const Command train_command = {
    .name = "train",
    .usage = "fathom train [RECIPE.ini] [--section.key=value ...]",
    .summary = "Train or distil a model on a process grid.",
    .example = "mpirun -np 2 fathom train configs/quickstart.ini --optim.lr=1e-4"};

TrainRequest parse_train(const Arguments& arguments) {
  TrainRequest request;
  OptionTable table;
  table.section("", "Options of the command line alone:");
  table.add("recipe", request.recipe,
            {.help = "Recipe to read; options on the command line beat it.",
             .unit = "INI file",
             .position = 0});
  table.add("print-config", request.print_config,
            {.help = "Print the complete recipe of this run and stop."});
  table.add("dry-run", request.dry_run,
            {.help = "Print partition, memory, messages and bytes without starting MPI."});
  table.add(
      "memory", request.memory,
      {.help = "Run one step, print the bytes that it kept for the backward pass by operation "
               "and rank, and every parameter with its owner, and stop. The run's folder stays as "
               "it is."});
  describe_train(table, request.config);
  if (asks_for_help(arguments)) {
    request.reply = help_text(train_command, table);
    return request;
  }
  parse_command_line(table, arguments);
  refuse(all_violations(request, table), table);
  if (request.print_config) request.reply = to_ini(table);
  return request;
}

std::string to_text(const train::TrainConfig& config) {
  train::TrainConfig copy = config;
  OptionTable table;
  describe_train(table, copy);
  return to_ini(table);
}

train::TrainConfig config_from_text(const std::string& text, const std::string& source) {
  train::TrainConfig config;
  OptionTable table;
  describe_train(table, config);
  read_ini(table, text, source);
  return config;
}

void refuse(const std::vector<train::Violation>& broken, const OptionTable& table) {
  std::string message;
  for (const train::Violation& violation : broken)
    message +=
        (message.empty() ? "" : "\n") + list_keys(table, violation.keys) + ": " + violation.rule;
  require(message.empty(), ErrorKind::config, message);
}

std::vector<Change> changes(const train::TrainConfig& stored, const train::TrainConfig& now) {
  train::TrainConfig before = stored;
  train::TrainConfig after = now;
  OptionTable old_table;
  OptionTable new_table;
  describe_train(old_table, before);
  describe_train(new_table, after);
  std::vector<Change> found;
  for (std::size_t i = 0; i < new_table.options().size(); ++i) {
    const Option& option = new_table.options()[i];
    const std::string was = old_table.options()[i].text();
    const std::string is = option.text();
    if (was != is) found.push_back({option.name, was, is, option.on_resume});
  }
  return found;
}

std::vector<Change> check_resume(const train::TrainConfig& stored, const train::TrainConfig& now) {
  const std::vector<Change> found = changes(stored, now);
  std::string message;
  for (const Change& change : found) {
    if (allowed(change, now.run)) continue;
    message += str("\n", change.key, " is '", change.is, "' and was '", change.was,
                   "' in the checkpoint; ", way_out(change.on_resume));
  }
  require(message.empty(), ErrorKind::config,
          "this run cannot continue from its checkpoint as configured:", message);
  return found;
}

}  // namespace fathom::options
