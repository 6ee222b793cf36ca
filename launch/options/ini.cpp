#include "launch/options/ini.h"

#include <boost/program_options.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

namespace fathom::options {
namespace {

namespace po = boost::program_options;

std::string trim(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// Line numbers of the assignments, in order: Boost reports neither them nor where a file is
/// malformed, so the lines are looked over before it reads them.
std::vector<int> assignment_lines(const std::string& text, const std::string& source) {
  std::vector<int> lines;
  std::istringstream in(text);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const auto comment = line.find('#');
    const bool glued = comment != std::string::npos && comment > 0 && line[comment - 1] != ' ' &&
                       line[comment - 1] != '\t';
    const std::string content = trim(line.substr(0, comment));
    if (content.empty()) continue;
    require(!glued, ErrorKind::config, source, ":", number,
            ": '#' starts a comment, so a value cannot contain it; put a blank before a comment");
    if (content.front() == '[' && content.back() == ']') continue;
    require(content.find('=') != std::string::npos, ErrorKind::config, source, ":", number, ": '",
            content, "' is neither [section] nor key = value");
    lines.push_back(number);
  }
  return lines;
}

}  // namespace

void read_ini(OptionTable& table, const std::string& text, const std::string& source) {
  const std::vector<int> lines = assignment_lines(text, source);
  po::options_description known;
  for (const Option& option : table.options())
    if (option.in_file()) known.add_options()(option.name.c_str(), po::value<std::string>());
  std::istringstream in(text);
  const po::parsed_options parsed = po::parse_config_file(in, known, true);
  FATHOM_CHECK(parsed.options.size() == lines.size(), parsed.options.size(), " assignments on ",
               lines.size(), " lines of ", source);

  std::map<std::string, int> line_of;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const po::option& item = parsed.options[i];
    const Origin origin = str(source, ":", lines[i]);
    if (item.unregistered) fail_unknown(table, item.string_key, origin);
    const auto [earlier, first] = line_of.emplace(item.string_key, lines[i]);
    require(first, ErrorKind::config, item.string_key, " is given twice: ", source, ":",
            earlier->second, " and ", origin);
    table.assign(item.string_key, item.value.empty() ? "" : item.value.front(), origin);
  }
}

void read_ini_file(OptionTable& table, const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  // Opening a folder succeeds; reading it does not.
  require(in.is_open() && !in.bad() && (text.good() || in.eof()), ErrorKind::config,
          "cannot read the recipe '", path, "': ", std::strerror(errno));
  read_ini(table, text.str(), path);
}

std::string to_ini(const OptionTable& table) {
  std::string text;
  for (std::size_t i = 0; i < table.sections().size(); ++i) {
    const Section& section = table.sections()[i];
    if (section.name.empty()) continue;
    const std::size_t end = i + 1 < table.sections().size() ? table.sections()[i + 1].first_option
                                                            : table.options().size();
    text += (text.empty() ? "[" : "\n[") + section.name + "]\n";
    for (std::size_t j = section.first_option; j < end; ++j) {
      const Option& option = table.options()[j];
      const std::string value = option.text();
      text += option.name.substr(section.name.size() + 1) + (value.empty() ? " =" : " = ") + value +
              "\n";
    }
  }
  return text;
}

}  // namespace fathom::options
