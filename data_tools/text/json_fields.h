#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

/// Fields of the JSON records that data sets consist of. Every call throws Error(data) that names
/// the field; the caller knows the file and the line.
namespace fathom::data_tools {

/// The object that a line holds.
nlohmann::json parse_object(std::string_view line);

std::string text_of(const nlohmann::json& value, const char* field);
std::string required_text(const nlohmann::json& object, const char* field);
/// The first of several names for a text; null counts as absent, and nothing found is empty.
std::string optional_text(const nlohmann::json& object, std::initializer_list<const char*> names);

/// The first of several names that the object has, or nullptr.
const char* find_field(const nlohmann::json& object, std::initializer_list<const char*> names);

/// The objects of a list; `item` is what messages call one of them, `fields` what it must have.
std::vector<nlohmann::json> objects_of(const nlohmann::json& object, const char* field,
                                       const char* item, const char* fields);

}  // namespace fathom::data_tools
