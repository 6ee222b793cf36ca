#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data_tools/text/example.h"

namespace fathom::data_tools {

/// How a family of models writes a conversation. Two shapes cover them: a header before each
/// message (ChatML, LLaMA 3, Zephyr), and instructions in brackets (LLaMA 2, Mistral). In the
/// texts, "{bos}",
/// "{eos}" and "{role}" stand for the tokenizer's tokens and the message's role.
struct ChatFormat {
  std::string_view name;
  bool bracketed;
  std::string_view begin;       ///< in front of the conversation
  std::string_view user_begin;  ///< in front of each user message (bracketed)
  std::string_view
      system_open;  ///< around the system text inside the first user message (bracketed)
  std::string_view system_close;
  std::string_view header;        ///< in front of each message (not bracketed)
  std::string_view before_reply;  ///< bracketed: in front of the assistant's text
  std::string_view after_reply;   ///< bracketed: between the assistant's text and the end
  std::string_view end;           ///< what ends a message (bracketed: an assistant's)
  std::string_view separator;     ///< after the end, in front of the next message
  bool strip;                     ///< white space around contents is removed
  /// Texts by which a chat_template of this family is known: all of these,
  std::vector<std::string_view> marks;
  /// and none of those, which announce a behaviour that this table does not have.
  std::vector<std::string_view> foreign;
};

/// chatml, llama2, llama3, mistral, zephyr.
std::span<const ChatFormat> chat_formats();

/// The family of a tokenizer's chat_template (Jinja source), or nullptr.
const ChatFormat* recognise_chat_format(std::string_view chat_template);

/// The system message that a ChatML template puts in front of a conversation without one (SmolLM2's
/// and Qwen2's do); empty if it has none.
std::string default_system_message(std::string_view chat_template);

/// A conversation split where the model begins to write.
struct ChatText {
  std::string prompt;    ///< with the header of the reply (add_generation_prompt)
  std::string response;  ///< the last message's text up to and with its end
};

/// Renders [system] (user assistant)* user [assistant]; without a last assistant message the
/// response is empty. `bos` and `eos` are the tokenizer's tokens as text.
ChatText render_chat(const ChatFormat& format, std::span<const Message> messages,
                     const std::string& bos, const std::string& eos);

}  // namespace fathom::data_tools
