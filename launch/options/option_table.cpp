#include "launch/options/option_table.h"

#include <algorithm>

#include "launch/options/edit_distance.h"

namespace fathom::options {
namespace {

std::string key_part(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

/// Boost's INI reader trims values and cuts them at '#', so such a text would not survive a file.
bool fits_a_file(const std::string& value) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  return value.find_first_of("#\r\n") == std::string::npos &&
         (value.empty() || !(blank(value.front()) || blank(value.back())));
}

}  // namespace

bool Range::holds(double value) const {
  return (open_below ? value > lowest : value >= lowest) &&
         (open_above ? value < highest : value <= highest);
}

std::string Range::text() const {
  const bool below = std::isfinite(lowest);
  const bool above_too = std::isfinite(highest);
  const auto print = Codec<double>::print;
  if (below && above_too && !open_below && !open_above)
    return print(lowest) + " to " + print(highest);
  std::string text;
  if (below) text = (open_below ? "greater than " : "at least ") + print(lowest);
  if (above_too) {
    if (below) text += " and ";
    text += (open_above ? "less than " : "at most ") + print(highest);
  }
  return text;
}

void OptionTable::section(std::string_view name, std::string_view summary, OnResume on_resume) {
  sections_.push_back({std::string(name), std::string(summary), options_.size()});
  on_resume_ = on_resume;
}

Option OptionTable::describe(std::string_view key, const Spec& spec,
                             const std::string& type) const {
  FATHOM_CHECK(!sections_.empty(), "option ", key, " stands before any section");
  Option option;
  const std::string& section = sections_.back().name;
  option.name = section.empty() ? std::string(key) : section + "." + std::string(key);
  option.unit = spec.unit;
  const std::string bounds = spec.range.text();
  // "text" says nothing that the noun does not: --run.dir <folder>.
  option.accepts = type == Codec<std::string>::type() && !spec.unit.empty() ? option.unit : type;
  if (!bounds.empty()) option.accepts += " " + bounds;
  option.help = spec.help;
  option.required = spec.required;
  option.position = spec.position;
  option.on_resume = spec.on_resume.value_or(on_resume_);
  return option;
}

void OptionTable::insert(Option option) {
  FATHOM_CHECK(find(option.name) == nullptr, "option ", option.name, " is described twice");
  options_.push_back(std::move(option));
}

void OptionTable::assign(const std::string& name, const std::string& value, const Origin& origin) {
  const auto option = std::find_if(options_.begin(), options_.end(),
                                   [&](const Option& o) { return o.name == name; });
  if (option == options_.end()) fail_unknown(*this, name, origin);
  require(!option->in_file() || fits_a_file(value), ErrorKind::config, name, " = '", value, "' (",
          origin, "): '#', line breaks and blanks at either end cannot be kept in a recipe file");
  require(option->assign(value), ErrorKind::config, name, " = '", value, "' (", origin,
          "): expected ", option->accepts);
  option->origin = origin;
}

void OptionTable::check_required() const {
  std::string missing;
  for (const Option& option : options_)
    if (option.required && option.origin == default_origin)
      missing += (missing.empty() ? "" : "\n") +
                 str("--", option.name, " <", option.accepts, "> is required: ", option.help);
  require(missing.empty(), ErrorKind::usage, missing);
}

const Option* OptionTable::find(const std::string& name) const {
  const auto option = std::find_if(options_.begin(), options_.end(),
                                   [&](const Option& o) { return o.name == name; });
  return option == options_.end() ? nullptr : &*option;
}

std::string OptionTable::describe_value(const std::string& name) const {
  const Option* option = find(name);
  FATHOM_CHECK(option != nullptr, "no option ", name);
  const std::string value = option->text();
  return str(name, " = ", value.empty() ? "(empty)" : value, " (", option->origin, ")");
}

std::string nearest_option(const OptionTable& table, const std::string& name) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const Option& option : table.options()) {
    // A right key in a wrong or missing section counts as one edit.
    const std::size_t by_key = 1 + edit_distance(key_part(option.name), key_part(name));
    const std::size_t distance = std::min(edit_distance(option.name, name), by_key);
    if (distance < best_distance) {
      best_distance = distance;
      best = option.name;
    }
  }
  return best;
}

void fail_unknown(const OptionTable& table, const std::string& name, const Origin& origin) {
  const std::string nearest = nearest_option(table, name);
  fail(ErrorKind::config, "unknown option '", name, "' (", origin, "): ",
       nearest.empty() ? "nothing has a similar name; --help lists them all"
                       : "did you mean '" + nearest + "'?");
}

}  // namespace fathom::options
