#include "data_tools/text/chat_format.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace fathom::data_tools {
namespace {

// A mark is a literal, with enough around it, that makes a template write what the row says;
// variants with another space or word are not recognised. Templates that reason ("<think>") or
// state a date write more than the messages.
const std::array<ChatFormat, 5> kFormats{{
    {.name = "chatml",
     .bracketed = false,
     .begin = "",
     .user_begin = "",
     .system_open = "",
     .system_close = "",
     .header = "<|im_start|>{role}\n",
     .before_reply = "",
     .after_reply = "",
     .end = "<|im_end|>",
     .separator = "\n",
     .strip = false,
     .marks = {"'<|im_start|>'", "'<|im_start|>assistant\n'", "+ '<|im_end|>' + '\n'"},
     .foreign = {"<think>"}},
    {.name = "llama2",
     .bracketed = true,
     .begin = "",
     .user_begin = "{bos}[INST] ",
     .system_open = "<<SYS>>\n",
     .system_close = "\n<</SYS>>\n\n",
     .header = "",
     .before_reply = " ",
     .after_reply = " ",
     .end = "{eos}",
     .separator = "",
     .strip = true,
     .marks = {"bos_token + '[INST] ' + content.strip() + ' [/INST]'",
               "' ' + content.strip() + ' ' + eos_token",
               "'<<SYS>>\n' + system_message + '\n<</SYS>>\n\n'"},
     .foreign = {"USE_DEFAULT_PROMPT"}},
    {.name = "llama3",
     .bracketed = false,
     .begin = "{bos}",
     .user_begin = "",
     .system_open = "",
     .system_close = "",
     .header = "<|start_header_id|>{role}<|end_header_id|>\n\n",
     .before_reply = "",
     .after_reply = "",
     .end = "<|eot_id|>",
     .separator = "",
     .strip = true,
     .marks = {"bos_token", "'<|end_header_id|>\n\n'", "| trim + '<|eot_id|>'",
               "'<|start_header_id|>assistant<|end_header_id|>\n\n'"},
     .foreign = {"Cutting Knowledge", "date_string"}},
    {.name = "mistral",
     .bracketed = true,
     .begin = "{bos}",
     .user_begin = "[INST] ",
     .system_open = "",
     .system_close = "\n\n",
     .header = "",
     .before_reply = " ",
     .after_reply = "",
     .end = "{eos}",
     .separator = "",
     .strip = false,
     .marks = {"bos_token", "'[INST] ' + message['content'] + ' [/INST]'",
               "' ' + message['content'] + eos_token"},
     .foreign = {"<<SYS>>", "[AVAILABLE_TOOLS]"}},
    {.name = "zephyr",
     .bracketed = false,
     .begin = "",
     .user_begin = "",
     .system_open = "",
     .system_close = "",
     .header = "<|{role}|>\n",
     .before_reply = "",
     .after_reply = "",
     .end = "{eos}",
     .separator = "\n",
     .strip = false,
     .marks = {"'<|user|>\n'", "'<|system|>\n'", "'<|assistant|>\n'",
               "message['content'] + eos_token"},
     .foreign = {"<|end|>"}},
}};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\v\f";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

void replace_all(std::string& text, std::string_view name, std::string_view value) {
  for (std::size_t at = text.find(name); at != std::string::npos;
       at = text.find(name, at + value.size())) {
    text.replace(at, name.size(), value);
  }
}

// Fills the places of one format text; contents never pass through here.
struct Filler {
  const std::string& bos;
  const std::string& eos;

  std::string operator()(std::string_view text, std::string_view role = "") const {
    std::string filled(text);
    replace_all(filled, "{bos}", bos);
    replace_all(filled, "{eos}", eos);
    replace_all(filled, "{role}", role);
    return filled;
  }
};

ChatText render_headers(const ChatFormat& format, std::span<const Message> messages,
                        std::string_view reply, const Filler& fill) {
  ChatText text;
  text.prompt = fill(format.begin);
  for (const Message& message : messages) {
    text.prompt += fill(format.header, message.role);
    text.prompt += format.strip ? stripped(message.content) : std::string_view(message.content);
    text.prompt += fill(format.end) + std::string(format.separator);
  }
  text.prompt += fill(format.header, "assistant");
  text.response = reply;
  return text;
}

ChatText render_brackets(const ChatFormat& format, std::span<const Message> messages,
                         std::string_view reply, const Filler& fill) {
  ChatText text;
  text.prompt = fill(format.begin);
  std::string system;
  for (const Message& message : messages) {
    if (message.role == "system") {
      system = str(format.system_open, message.content, format.system_close);
    } else if (message.role == "user") {
      const std::string content = system + message.content;
      system.clear();
      text.prompt += fill(format.user_begin);
      text.prompt += format.strip ? stripped(content) : std::string_view(content);
      text.prompt += " [/INST]";
    } else {
      text.prompt += format.before_reply;
      text.prompt += format.strip ? stripped(message.content) : std::string_view(message.content);
      text.prompt += format.after_reply;
      text.prompt += fill(format.end);
    }
  }
  text.response = str(format.before_reply, reply, format.after_reply);
  return text;
}

}  // namespace

std::span<const ChatFormat> chat_formats() {
  return kFormats;
}

const ChatFormat* recognise_chat_format(std::string_view chat_template) {
  // Literals are compared with line breaks and quotes in one form, as authors write both.
  std::string text(chat_template);
  replace_all(text, "\\n", "\n");
  replace_all(text, "\"", "'");
  const auto fits = [&](const ChatFormat& format) {
    const auto present = [&](std::string_view mark) { return contains(text, mark); };
    return std::all_of(format.marks.begin(), format.marks.end(), present) &&
           std::none_of(format.foreign.begin(), format.foreign.end(), present);
  };
  const auto found = std::find_if(kFormats.begin(), kFormats.end(), fits);
  return found == kFormats.end() ? nullptr : &*found;
}

std::string default_system_message(std::string_view chat_template) {
  // Inside the Jinja source the line break is either itself or written as \n.
  for (std::string_view open : {"<|im_start|>system\n", "<|im_start|>system\\n"}) {
    for (std::size_t at = chat_template.find(open); at != std::string_view::npos;
         at = chat_template.find(open, at + 1)) {
      const std::string_view rest = chat_template.substr(at + open.size());
      const std::string_view text = rest.substr(0, rest.find("<|im_end|>"));
      // A quote means that the literal ends here and the text comes from a message.
      if (!text.empty() && text.size() < rest.size() && !contains(text, "'") &&
          !contains(text, "\"")) {
        return std::string(text);
      }
    }
  }
  return {};
}

ChatText render_chat(const ChatFormat& format, std::span<const Message> messages,
                     const std::string& bos, const std::string& eos) {
  const Filler fill{bos, eos};
  std::string_view reply;
  const bool replied = !messages.empty() && messages.back().role == "assistant";
  if (replied) {
    reply = messages.back().content;
    messages = messages.first(messages.size() - 1);
  }
  if (format.strip) reply = stripped(reply);
  ChatText text = format.bracketed ? render_brackets(format, messages, reply, fill)
                                   : render_headers(format, messages, reply, fill);
  text.response = replied ? text.response + fill(format.end) : std::string();
  return text;
}

}  // namespace fathom::data_tools
