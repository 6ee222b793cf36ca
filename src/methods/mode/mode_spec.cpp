#include "methods/mode/mode_spec.h"

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace fathom::methods::mode {

std::string to_json(const ModeSpec& spec) {
  const nlohmann::json json = {{"k", spec.k},
                               {"top_k", spec.top_k},
                               {"router", spec.router == Router::learnt ? "learnt" : "uniform"},
                               {"norms", spec.norms == Norms::own ? "own" : "none"}};
  return json.dump();
}

ModeSpec parse_mode(const std::string& text, const std::string& origin) {
  try {
    const auto json = nlohmann::json::parse(text);
    const auto one_of = [&](const char* key, const char* first, const char* second) {
      const std::string word = json.at(key);
      require(word == first || word == second, ErrorKind::io, origin, ": ", key, " = '", word,
              "' is neither ", first, " nor ", second);
      return word == first;
    };
    return {.k = json.at("k"),
            .top_k = json.at("top_k"),
            .router = one_of("router", "learnt", "uniform") ? Router::learnt : Router::uniform,
            .norms = one_of("norms", "own", "none") ? Norms::own : Norms::none};
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::io, origin, ": not a mixture of late layers: ", error.what());
  }
}

}  // namespace fathom::methods::mode
