#include "data_tools/text/json_fields.h"

#include "core/error.h"

namespace fathom::data_tools {

using nlohmann::json;

json parse_object(std::string_view line) {
  json object;
  try {
    object = json::parse(line);
  } catch (const json::exception& error) {
    const bool array =
        line.find_first_not_of(" \t") < line.size() && line[line.find_first_not_of(" \t")] == '[';
    fail(ErrorKind::data, "malformed JSON: ", error.what(),
         array ? "; one object a line expected (jq -c '.[]' turns an array into lines)" : "");
  }
  require(object.is_object(), ErrorKind::data, "a JSON ", object.type_name(),
          "; one object a line expected (jq -c '.[]' turns an array into lines)");
  return object;
}

std::string text_of(const json& value, const char* field) {
  require(value.is_string(), ErrorKind::data, "field '", field, "' is a ", value.type_name(),
          "; a text expected");
  return value.get<std::string>();
}

std::string required_text(const json& object, const char* field) {
  require(object.contains(field), ErrorKind::data, "field '", field, "' is missing");
  return text_of(object[field], field);
}

const char* find_field(const json& object, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (object.contains(name) && !object[name].is_null()) return name;
  return nullptr;
}

std::string optional_text(const json& object, std::initializer_list<const char*> names) {
  const char* name = find_field(object, names);
  return name == nullptr ? std::string() : text_of(object[name], name);
}

std::vector<json> objects_of(const json& object, const char* field, const char* item,
                             const char* fields) {
  const json& list = object.at(field);
  require(list.is_array(), ErrorKind::data, "field '", field, "' is a ", list.type_name(),
          "; a list expected");
  std::vector<json> objects;
  for (const json& entry : list) {
    require(entry.is_object(), ErrorKind::data, item, " ", objects.size(), " is a ",
            entry.type_name(), "; ", fields, " expected");
    objects.push_back(entry);
  }
  return objects;
}

}  // namespace fathom::data_tools
