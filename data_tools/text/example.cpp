#include "data_tools/text/example.h"

#include <initializer_list>
#include <utility>

#include "core/error.h"
#include "data_tools/text/json_fields.h"

namespace fathom::data_tools {
namespace {

using nlohmann::json;

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

std::vector<Message> parse_messages(const json& object) {
  std::vector<Message> messages;
  for (const json& item : objects_of(object, "messages", "message", "{role, content}"))
    messages.push_back({required_text(item, "role"), required_text(item, "content")});
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
  std::vector<Example> examples;
  for (const json& item : objects_of(object, "instances", "instance", "{input, output}"))
    examples.push_back(InstructionExample{required_text(object, "instruction"),
                                          optional_text(item, {"input"}),
                                          response_text(item, {"output"})});
  return examples;
}

}  // namespace

ChatExample parse_chat(const json& object) {
  ChatExample chat{parse_messages(object)};
  check_roles(chat.messages);
  return chat;
}

std::vector<Example> parse_examples(std::string_view json_line) {
  const json object = parse_object(json_line);
  if (object.contains("messages")) return {parse_chat(object)};
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
