#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "launch/options/codec.h"

namespace fathom::options {

/// Bounds of a number (or of each number in a list).
struct Range {
  double lowest = -std::numeric_limits<double>::infinity();
  double highest = std::numeric_limits<double>::infinity();
  bool open_below = false;  ///< lowest itself is refused
  bool open_above = false;

  bool holds(double value) const;
  std::string text() const;  ///< "at least 1", "greater than 0", "0 to 1"; empty when unbounded
};

inline Range at_least(double lowest) {
  return {.lowest = lowest};
}
inline Range above(double bound) {
  return {.lowest = bound, .open_below = true};
}
inline Range within(double lowest, double highest) {
  return {.lowest = lowest, .highest = highest};
}
/// lowest <= x < bound
inline Range from_below(double lowest, double bound) {
  return {.lowest = lowest, .highest = bound, .open_above = true};
}

/// What a resumed run may do with an option whose value differs from the checkpoint's.
enum class OnResume {
  free,      ///< change it at will: it does not touch the numbers
  training,  ///< changes the training: needs run.accept_changes
  data,      ///< changes which samples come when: needs run.reset_data
};

/// Where a value came from, as messages print it: "default", "command line" or "recipe.ini:12".
using Origin = std::string;
inline const Origin default_origin = "default";

/// What one line of a table says besides name and field.
struct Spec {
  std::string_view help;       ///< one sentence
  std::string_view unit = {};  ///< of a number; for a text what it names ("folder")
  Range range = {};
  bool required = false;
  int position = -1;  ///< also accepted as this argument without a name, counted from 0
  std::optional<OnResume> on_resume = {};  ///< where it differs from the section's
};

struct Option {
  std::string name;     ///< "section.key", or "key" for options that never stand in a file
  std::string accepts;  ///< "number greater than 0", "f32|bf16", "folder"
  std::string unit;
  std::string help;
  std::string default_text;
  bool is_flag = false;  ///< --name alone means --name=true
  bool required = false;
  int position = -1;
  OnResume on_resume = OnResume::training;
  Origin origin = default_origin;
  std::function<bool(const std::string&)> assign;  ///< false: not an accepted value
  std::function<std::string()> text;               ///< current value, reads back to the same

  bool in_file() const { return name.find('.') != std::string::npos; }
};

struct Section {
  std::string name;  ///< empty: options of the command line alone
  std::string summary;
  std::size_t first_option = 0;
};

/// Every option of one command, bound to the fields that hold the values. The fields' values at the
/// time of add() are the defaults; the object that owns them must outlive the table and stay put.
class OptionTable {
 public:
  /// Starts the section that following add() calls belong to.
  void section(std::string_view name, std::string_view summary,
               OnResume on_resume = OnResume::training);

  template <typename T>
  void add(std::string_view key, T& field, const Spec& spec) {
    Option option = describe(key, spec, Codec<T>::type());
    option.is_flag = std::same_as<T, bool>;
    option.assign = [&field, range = spec.range](const std::string& text) {
      const auto value = Codec<T>::parse(text);
      if (!value || !in_range(range, *value)) return false;
      field = *value;
      return true;
    };
    option.text = [&field] { return Codec<T>::print(field); };
    option.default_text = option.text();
    insert(std::move(option));
  }

  /// Sets an option by name. Throws Error(config) that names key, value, origin and what is
  /// accepted, or, for an unknown name, the nearest known one.
  void assign(const std::string& name, const std::string& value, const Origin& origin);

  /// Throws Error(usage) that names every required option still missing.
  void check_required() const;

  const std::vector<Option>& options() const { return options_; }
  const std::vector<Section>& sections() const { return sections_; }
  const Option* find(const std::string& name) const;

  /// "optim.lr = 0.5 (recipe.ini:12)"
  std::string describe_value(const std::string& name) const;

 private:
  template <typename T>
  static bool in_range(const Range& range, const T& value) {
    if constexpr (std::is_arithmetic_v<T>) return range.holds(static_cast<double>(value));
    if constexpr (std::same_as<T, std::vector<int>>) {
      for (int item : value)
        if (!range.holds(item)) return false;
    }
    return true;
  }
  Option describe(std::string_view key, const Spec& spec, const std::string& type) const;
  void insert(Option option);

  std::vector<Option> options_;
  std::vector<Section> sections_;
  OnResume on_resume_ = OnResume::training;
};

/// The known name that `name` most likely meant, or empty when none is close: by edit distance over
/// the whole name, and over the part behind the dot for a key without or with a wrong section.
std::string nearest_option(const OptionTable& table, const std::string& name);

/// Throws the Error(config) for a name the table does not have.
[[noreturn]] void fail_unknown(const OptionTable& table, const std::string& name,
                               const Origin& origin);

}  // namespace fathom::options
