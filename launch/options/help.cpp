#include "launch/options/command_line.h"

namespace fathom::options {
namespace {

constexpr std::size_t help_width = 96;

/// Breaks a text at blanks so that no line is longer than the page, each line indented.
std::string wrap(std::string_view text, std::size_t indent) {
  std::string page;
  std::string line(indent, ' ');
  while (!text.empty()) {
    const auto blank = text.find(' ');
    const std::string_view word = text.substr(0, blank);
    if (line.size() > indent && line.size() + 1 + word.size() > help_width) {
      page += line + "\n";
      line.assign(indent, ' ');
    }
    if (line.size() > indent) line += ' ';
    line += word;
    text.remove_prefix(blank == std::string_view::npos ? text.size() : blank + 1);
  }
  return page + line + "\n";
}

std::string entry(const Option& option) {
  std::string head = "  --" + option.name;
  if (!option.is_flag || option.default_text == "true") head += " <" + option.accepts + ">";
  if (!option.unit.empty() && option.unit != option.accepts) head += "  in " + option.unit;
  if (option.required)
    head += "  (required)";
  else if (!option.is_flag || option.default_text == "true")
    head += "  [" + (option.default_text.empty() ? "empty" : option.default_text) + "]";
  return head + "\n" + wrap(option.help, 6);
}

}  // namespace

std::string help_text(const Command& command, const OptionTable& table) {
  std::string page = str(command.summary, "\n\nUsage: ", command.usage, "\n");
  if (!command.example.empty()) page += str("Example: ", command.example, "\n");
  page += "\nEach option: --name <what it accepts>  in unit  [default]\n";
  for (std::size_t i = 0; i < table.sections().size(); ++i) {
    const Section& section = table.sections()[i];
    const std::size_t end = i + 1 < table.sections().size() ? table.sections()[i + 1].first_option
                                                            : table.options().size();
    page += section.name.empty() ? str("\n", section.summary, "\n")
                                 : str("\n[", section.name, "] ", section.summary, "\n");
    for (std::size_t j = section.first_option; j < end; ++j) page += entry(table.options()[j]);
  }
  return page + "\n  --help, -h\n      Print this page.\n";
}

}  // namespace fathom::options
