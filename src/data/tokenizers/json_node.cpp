#include "data/tokenizers/json_node.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"

namespace fathom::data {

JsonNode JsonNode::at(const std::string& key) const {
  auto member = find(key);
  if (!member) refuse("has no '" + key + "'");
  return *member;
}

std::optional<JsonNode> JsonNode::find(const std::string& key) const {
  if (!value_->is_object()) refuse("must be an object");
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonNode(*found, path_ + (path_.ends_with(": ") ? "" : ".") + key);
}

std::vector<JsonNode> JsonNode::items() const {
  if (!value_->is_array()) refuse("must be an array");
  std::vector<JsonNode> nodes;
  for (const auto& item : *value_) nodes.emplace_back(item, str(path_, '[', nodes.size(), ']'));
  return nodes;
}

std::string JsonNode::string() const {
  if (!value_->is_string()) refuse("must be a string");
  return value_->get<std::string>();
}

bool JsonNode::boolean() const {
  if (!value_->is_boolean()) refuse("must be true or false");
  return value_->get<bool>();
}

std::int64_t JsonNode::integer() const {
  if (!value_->is_number_integer()) refuse("must be an integer");
  return value_->get<std::int64_t>();
}

bool JsonNode::flag(const std::string& key, bool otherwise) const {
  const auto member = find(key);
  return member ? member->boolean() : otherwise;
}

std::string JsonNode::text(const std::string& key, const std::string& otherwise) const {
  const auto member = find(key);
  return member ? member->string() : otherwise;
}

void JsonNode::refuse(const std::string& reason) const {
  std::string shown = value_->is_structured() ? "" : ", not " + value_->dump();
  fail(ErrorKind::data, path_, path_.ends_with(": ") ? "" : " ", reason, shown);
}

nlohmann::json read_json_object(const std::filesystem::path& path) {
  const std::string text = files::read_text(path);
  try {
    auto json = nlohmann::json::parse(text);
    require(json.is_object(), ErrorKind::data, path.string(), ": must hold a JSON object");
    return json;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, path.string(), ": is not valid JSON (", text.size(),
         " bytes): ", error.what());
  }
}

}  // namespace fathom::data
