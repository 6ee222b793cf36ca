#include "methods/mode/mode_spec.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace fathom::methods::mode {
namespace {

// In the order of the enumerations.
constexpr std::array kRouters = {"learnt", "uniform"};
constexpr std::array kInputs = {"raw", "rms"};
constexpr std::array kNorms = {"own", "shared", "none"};

template <typename Enum, std::size_t n>
const char* word_of(const std::array<const char*, n>& words, Enum value) {
  return words.at(static_cast<std::size_t>(value));
}

template <typename Enum, std::size_t n>
Enum value_of(const std::array<const char*, n>& words, const char* key, const std::string& word,
              const std::string& origin) {
  const auto found = std::find(words.begin(), words.end(), word);
  std::string all;
  for (const char* each : words) all += str(all.empty() ? "" : ", ", each);
  require(found != words.end(), ErrorKind::io, origin, ": ", key, " = '", word, "' is none of ",
          all);
  return static_cast<Enum>(found - words.begin());
}

}  // namespace

std::string to_json(const ModeSpec& spec) {
  const nlohmann::json json = {{"k", spec.k},
                               {"top_k", spec.top_k},
                               {"router", word_of(kRouters, spec.router)},
                               {"router_input", word_of(kInputs, spec.router_input)},
                               {"norms", word_of(kNorms, spec.norms)}};
  return json.dump();
}

ModeSpec parse_mode(const std::string& text, const std::string& origin) {
  try {
    const auto json = nlohmann::json::parse(text);
    return {.k = json.at("k"),
            .top_k = json.at("top_k"),
            .router = value_of<Router>(kRouters, "router", json.at("router"), origin),
            // Files from before there was a choice do not say.
            .router_input = value_of<RouterInput>(kInputs, "router_input",
                                                  json.value("router_input", "raw"), origin),
            .norms = value_of<Norms>(kNorms, "norms", json.at("norms"), origin)};
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::io, origin, ": not a mixture of late layers: ", error.what());
  }
}

}  // namespace fathom::methods::mode
