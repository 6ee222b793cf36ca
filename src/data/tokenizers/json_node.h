#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace fathom::data {

/// A value in a JSON file and the way to it, so that every complaint says where. Does not own the
/// value. All calls throw Error(data) if the value is not what they ask for.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string path) : value_(&value), path_(path) {}

  const nlohmann::json& value() const { return *value_; }
  /// "file: member.member[index]".
  const std::string& path() const { return path_; }

  /// A member that must be there.
  JsonNode at(const std::string& key) const;
  /// A member, unless it is absent or null.
  std::optional<JsonNode> find(const std::string& key) const;
  std::vector<JsonNode> items() const;

  std::string string() const;
  bool boolean() const;
  std::int64_t integer() const;

  /// Members with a default for absent or null.
  bool flag(const std::string& key, bool otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;

  [[noreturn]] void refuse(const std::string& reason) const;

 private:
  const nlohmann::json* value_;
  std::string path_;
};

/// Throws Error(io) if the file cannot be read and Error(data) if it is not one JSON object.
nlohmann::json read_json_object(const std::filesystem::path& path);

}  // namespace fathom::data
