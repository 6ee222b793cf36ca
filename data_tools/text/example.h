#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fathom::data_tools {

struct Message {
  std::string role;  ///< "system", "user" or "assistant"
  std::string content;
};

/// An instruction, an optional input (Dolly's context) and the response.
struct InstructionExample {
  std::string instruction;
  std::string input;
  std::string response;
};

/// A prompt that may be templated already, and the response.
struct PromptExample {
  std::string prompt;
  std::string response;
};

/// A conversation whose last message, the assistant's, is the response.
struct ChatExample {
  std::vector<Message> messages;
};

/// Text that is supervised from its first token to its last.
struct TextExample {
  std::string text;
};

using Example = std::variant<InstructionExample, PromptExample, ChatExample, TextExample>;

/// The examples of one JSON object, told apart by its fields, the first row that fits:
///   messages: [{role, content}, ...]                      a conversation ending with "assistant"
///   instruction, instances: [{input, output}, ...]        Self-Instruct: one example an instance
///   instruction, input | context, output | response       Alpaca, Dolly; the input may be absent
///   question, answer                                      an instruction without an input
///   prompt, response | completion | output                a prompt as it stands
///   text                                                  plain text
/// Other fields are ignored. Where a response is a list of references, the first is taken. Throws
/// Error(data) saying what is wrong (the caller knows the file and the line): malformed JSON or
/// UTF-8, no row that fits, a field of another type, unknown roles or an order that no template can
/// render.
std::vector<Example> parse_examples(std::string_view json_line);

/// The conversation of an object with the field `messages`; throws as parse_examples() does.
ChatExample parse_chat(const nlohmann::json& object);

}  // namespace fathom::data_tools
