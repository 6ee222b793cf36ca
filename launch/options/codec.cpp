#include "launch/options/codec.h"

namespace fathom::options {
namespace {

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// The parts between commas, trimmed; none for an empty text.
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  if (trim(text).empty()) return parts;
  while (true) {
    const auto comma = text.find(',');
    parts.push_back(trim(text.substr(0, comma)));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

std::optional<bool> Codec<bool>::parse(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

std::optional<double> Codec<double>::parse(std::string_view text) {
  const auto value = parse_number<double>(text);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return value;
}

std::string Codec<double>::print(double value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, end);
}

std::optional<std::vector<int>> Codec<std::vector<int>>::parse(std::string_view text) {
  std::vector<int> list;
  for (std::string_view part : split_list(text)) {
    const auto value = parse_number<int>(part);
    if (!value) return std::nullopt;
    list.push_back(*value);
  }
  return list;
}

std::string Codec<std::vector<int>>::print(const std::vector<int>& value) {
  std::string text;
  for (int item : value) text += (text.empty() ? "" : ",") + std::to_string(item);
  return text;
}

std::optional<std::vector<std::string>> Codec<std::vector<std::string>>::parse(
    std::string_view text) {
  std::vector<std::string> list;
  for (std::string_view part : split_list(text)) {
    if (part.empty()) return std::nullopt;
    list.emplace_back(part);
  }
  return list;
}

std::string Codec<std::vector<std::string>>::print(const std::vector<std::string>& value) {
  std::string text;
  for (const std::string& item : value) text += (text.empty() ? "" : ",") + item;
  return text;
}

std::optional<train::LayerChoice> Codec<train::LayerChoice>::parse(std::string_view text) {
  constexpr std::string_view every = "every:";
  train::LayerChoice choice;
  if (text.starts_with(every)) {
    const auto step = parse_number<int>(text.substr(every.size()));
    if (!step || *step < 1) return std::nullopt;
    choice.every = *step;
    return choice;
  }
  const auto layers = Codec<std::vector<int>>::parse(text);
  if (!layers) return std::nullopt;
  choice.layers = *layers;
  return choice;
}

std::string Codec<train::LayerChoice>::print(const train::LayerChoice& value) {
  if (value.every > 0) return "every:" + std::to_string(value.every);
  return Codec<std::vector<int>>::print(value.layers);
}

std::optional<train::NamePatterns> Codec<train::NamePatterns>::parse(std::string_view text) {
  if (text == "none") return train::NamePatterns{};
  if (text == "all") return train::NamePatterns{{"*"}};
  train::NamePatterns names;
  for (std::string_view part : split_list(text)) {
    if (part.empty()) return std::nullopt;
    names.patterns.emplace_back(part);
  }
  if (names.patterns.empty()) return std::nullopt;
  return names;
}

std::string Codec<train::NamePatterns>::print(const train::NamePatterns& value) {
  if (value.patterns.empty()) return "none";
  if (value == train::NamePatterns{{"*"}}) return "all";
  std::string text;
  for (const std::string& pattern : value.patterns) text += (text.empty() ? "" : ",") + pattern;
  return text;
}

}  // namespace fathom::options
