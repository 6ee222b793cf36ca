#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fathom::testing {

/// The lines of a run's metrics.jsonl that have this kind ("step", "eval").
inline std::vector<nlohmann::json> metrics_of(const std::filesystem::path& run,
                                              const std::string& kind) {
  std::ifstream file(run / "metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string text; std::getline(file, text);)
    if (auto line = nlohmann::json::parse(text); line.at("kind") == kind)
      lines.push_back(std::move(line));
  return lines;
}

}  // namespace fathom::testing
