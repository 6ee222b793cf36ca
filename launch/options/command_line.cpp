#include "launch/options/command_line.h"

#include <algorithm>
#include <boost/program_options.hpp>

#include "launch/options/ini.h"

namespace fathom::options {
namespace {

namespace po = boost::program_options;

struct Assignment {
  std::string name;
  std::string value;
};

po::options_description boost_options(const OptionTable& table) {
  po::options_description known;
  for (const Option& option : table.options())
    known.add_options()(option.name.c_str(), po::value<std::string>());
  return known;
}

po::positional_options_description boost_positions(const OptionTable& table) {
  std::vector<const Option*> placed;
  for (const Option& option : table.options())
    if (option.position >= 0) placed.push_back(&option);
  std::sort(placed.begin(), placed.end(),
            [](const Option* a, const Option* b) { return a->position < b->position; });
  po::positional_options_description positions;
  for (const Option* option : placed) positions.add(option->name.c_str(), 1);
  return positions;
}

/// `--name=` gives an empty text, which Boost takes only as a word of its own; a flag alone is
/// true, and never takes the word behind it, which may be the recipe.
Arguments spell_out_values(const OptionTable& table, const Arguments& arguments) {
  Arguments words;
  for (const std::string& word : arguments) {
    const Option* option = word.starts_with("--") ? table.find(word.substr(2)) : nullptr;
    if (option != nullptr && option->is_flag) {
      words.push_back(word + "=true");
      continue;
    }
    const bool empty_value = word.starts_with("--") && word.find('=') == word.size() - 1;
    words.push_back(empty_value ? word.substr(0, word.size() - 1) : word);
    if (empty_value) words.emplace_back();
  }
  return words;
}

/// Boost takes the next option for the value of one that lacks it.
void require_value(const po::option& item) {
  const bool swallowed =
      item.original_tokens.size() == 2 && item.original_tokens.back().starts_with("--");
  require(!swallowed, ErrorKind::usage, "--", item.string_key,
          " needs a value; a value that begins ", "with dashes is written --", item.string_key,
          "=VALUE");
}

std::vector<Assignment> split(const OptionTable& table, const Arguments& arguments) {
  namespace style = po::command_line_style;
  const auto known = boost_options(table);
  const auto positions = boost_positions(table);
  std::vector<Assignment> assignments;
  try {
    const auto parsed =
        po::command_line_parser(spell_out_values(table, arguments))
            .options(known)
            .positional(positions)
            .style(style::allow_long | style::long_allow_adjacent | style::long_allow_next |
                   style::allow_short | style::allow_dash_for_short | style::short_allow_next)
            .allow_unregistered()
            .run();
    for (const po::option& item : parsed.options) {
      if (item.unregistered) fail_unknown(table, item.string_key, "command line");
      require_value(item);
      assignments.push_back({item.string_key, item.value.empty() ? "" : item.value.front()});
    }
  } catch (const po::error& error) {
    fail(ErrorKind::usage, error.what());
  }
  return assignments;
}

}  // namespace

bool asks_for_help(const Arguments& arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  return std::any_of(arguments.begin(), end,
                     [](const std::string& word) { return word == "--help" || word == "-h"; });
}

void parse_command_line(OptionTable& table, const Arguments& arguments) {
  const std::vector<Assignment> assignments = split(table, arguments);
  const auto assign_all = [&](bool in_file) {
    for (const auto& [name, value] : assignments)
      if (table.find(name)->in_file() == in_file) table.assign(name, value, "command line");
  };
  assign_all(false);
  if (const Option* recipe = table.find("recipe"); recipe && recipe->origin != default_origin)
    read_ini_file(table, recipe->text());
  assign_all(true);
  table.check_required();
}

}  // namespace fathom::options
