#include "data_tools/text/example.h"

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"

namespace fathom::data_tools {
namespace {

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

// The first of several names for an optional text; null counts as absent.
std::string optional_text(const json& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (object.contains(name) && !object[name].is_null()) return text_of(object[name], name);
  }
  return {};
}

std::string response_text(const json& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (!object.contains(name)) continue;
    const json& value = object[name];
    if (!value.is_array()) return text_of(value, name);
    require(!value.empty(), ErrorKind::data, "field '", name, "' is an empty list");
    return text_of(value[0], name);
  }
  std::string all;
  for (const char* name : names) all += str(all.empty() ? "'" : " or '", name, "'");
  fail(ErrorKind::data, "field ", all, " is missing");
}

std::vector<Message> parse_messages(const json& list) {
  require(list.is_array(), ErrorKind::data, "field 'messages' is a ", list.type_name(),
          "; a list expected");
  std::vector<Message> messages;
  for (const json& item : list) {
    require(item.is_object(), ErrorKind::data, "message ", messages.size(), " is a ",
            item.type_name(), "; {role, content} expected");
    messages.push_back({required_text(item, "role"), required_text(item, "content")});
  }
  return messages;
}

// [system] (user assistant)+
void check_roles(const std::vector<Message>& messages) {
  const std::size_t first = !messages.empty() && messages[0].role == "system" ? 1 : 0;
  for (std::size_t i = first; i < messages.size(); ++i) {
    const char* expected = (i - first) % 2 == 0 ? "user" : "assistant";
    require(messages[i].role == expected, ErrorKind::data, "message ", i, " has role '",
            messages[i].role, "'; '", expected, "' expected");
  }
  require(messages.size() >= first + 2 && (messages.size() - first) % 2 == 0, ErrorKind::data,
          "a conversation of ", messages.size(),
          " messages; pairs of user and assistant after an optional system message expected");
}

std::vector<Example> instances_of(const json& object) {
  const json& list = object["instances"];
  require(list.is_array(), ErrorKind::data, "field 'instances' is a ", list.type_name(),
          "; a list expected");
  std::vector<Example> examples;
  for (const json& item : list) {
    require(item.is_object(), ErrorKind::data, "instance ", examples.size(), " is a ",
            item.type_name(), "; {input, output} expected");
    examples.push_back(InstructionExample{required_text(object, "instruction"),
                                          optional_text(item, {"input"}),
                                          response_text(item, {"output"})});
  }
  return examples;
}

}  // namespace

std::vector<Example> parse_examples(std::string_view json_line) {
  const json object = parse_object(json_line);
  if (object.contains("messages")) {
    ChatExample chat{parse_messages(object["messages"])};
    check_roles(chat.messages);
    return {std::move(chat)};
  }
  if (object.contains("instruction")) {
    if (object.contains("instances")) return instances_of(object);
    return {InstructionExample{required_text(object, "instruction"),
                               optional_text(object, {"input", "context"}),
                               response_text(object, {"output", "response"})}};
  }
  if (object.contains("question")) {
    return {InstructionExample{required_text(object, "question"), "",
                               response_text(object, {"answer"})}};
  }
  if (object.contains("prompt")) {
    return {PromptExample{required_text(object, "prompt"),
                          response_text(object, {"response", "completion", "output"})}};
  }
  if (object.contains("text")) return {TextExample{required_text(object, "text")}};
  fail(ErrorKind::data,
       "no field 'messages', 'instruction', 'question', 'prompt' or 'text' in this record");
}

}  // namespace fathom::data_tools
