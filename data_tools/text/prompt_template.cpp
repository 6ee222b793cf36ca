#include "data_tools/text/prompt_template.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "data/fingerprint.h"

namespace fathom::data_tools {
namespace {

constexpr std::string_view kTask = "Below is an instruction that describes a task";
constexpr std::string_view kWithInput = ", paired with an input that provides further context. ";
constexpr std::string_view kComplete = "Write a response that appropriately completes the request.";

/// The blanks of an Alpaca form: as intended, or as the indentation of a Python literal left them.
struct AlpacaForm {
  std::string_view name;
  std::string_view after_request, after_request_with_input;
  std::string_view indent;  ///< in front of each line but the first
  std::string_view gap;     ///< the line in front of "### Input:" and "### Response:"
};
constexpr std::string_view kIndent = "                ";
constexpr AlpacaForm kAlpacaForms[] = {{"alpaca", "", "", "", ""},
                                       {"alpaca_train", "  ", " ", kIndent, kIndent},
                                       {"alpaca_eval", " ", "", kIndent, ""}};

const AlpacaForm* find_alpaca_form(const std::string& name) {
  for (const AlpacaForm& form : kAlpacaForms)
    if (form.name == name) return &form;
  return nullptr;
}

bool is_single_turn(const std::string& name) {
  return name == "plain" || name == "dolly" || find_alpaca_form(name) != nullptr;
}

std::string alpaca_prompt(const AlpacaForm& form, const InstructionExample& example) {
  const bool has_input = !example.input.empty();
  const auto section = [&](std::string_view title, std::string_view text) {
    return str(form.indent, title, "\n", form.indent, text);
  };
  const std::string next = str("\n", form.gap, "\n");
  std::string prompt = str(kTask, has_input ? kWithInput : ". ", kComplete,
                           has_input ? form.after_request_with_input : form.after_request, "\n\n",
                           section("### Instruction:", example.instruction), next);
  if (has_input) prompt += section("### Input:", example.input) + next;
  return prompt + section("### Response:", "");
}

std::string dolly_prompt(const InstructionExample& example) {
  const std::string input = example.input.empty() ? "" : "\n\nInput:\n" + example.input;
  return str(kTask, ". ", kComplete, "\n\n### Instruction:\n", example.instruction, input,
             "\n\n### Response:\n");
}

const ChatFormat* find_chat_format(const std::string& name) {
  for (const ChatFormat& format : chat_formats()) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

std::string token_text(const data::Tokenizer& tokenizer, std::optional<std::int32_t> id) {
  if (!id) return {};
  const std::int32_t ids[] = {*id};
  return tokenizer.decode(ids, false);
}

// Instruction data in a user's words: the input follows after a blank line.
std::string user_text(const InstructionExample& example) {
  return example.input.empty() ? example.instruction : example.instruction + "\n\n" + example.input;
}

const std::string& reply_of(const Example& example) {
  if (const auto* e = std::get_if<InstructionExample>(&example)) return e->response;
  if (const auto* e = std::get_if<PromptExample>(&example)) return e->response;
  if (const auto* e = std::get_if<ChatExample>(&example)) return e->messages.back().content;
  return std::get<TextExample>(example).text;
}

}  // namespace

std::string template_names() {
  std::string names = "plain, dolly";
  for (const AlpacaForm& form : kAlpacaForms) names += str(", ", form.name);
  for (const ChatFormat& format : chat_formats()) names += str(", ", format.name);
  return names + ", auto";
}

PromptTemplate::PromptTemplate(const std::string& name, const data::Tokenizer& tokenizer,
                               std::optional<std::string> system)
    : tokenizer_(tokenizer), name_(name) {
  if (name == "auto") {
    chat_ = recognise_chat_format(tokenizer.chat_template());
    require(chat_ != nullptr, ErrorKind::config,
            "template 'auto': the tokenizer's chat_template is ",
            tokenizer.chat_template().empty() ? "absent" : "not of a known family",
            "; choose one of ", template_names());
    name_ = chat_->name;
  } else if (!is_single_turn(name)) {
    chat_ = find_chat_format(name);
    require(chat_ != nullptr, ErrorKind::config, "template '", name, "'; one of ", template_names(),
            " expected");
  }
  bos_ = token_text(tokenizer, tokenizer.bos_id());
  eos_ = token_text(tokenizer, tokenizer.eos_id());
  const bool own_end = chat_ != nullptr && chat_->end != "{eos}";
  const auto end = own_end ? tokenizer.token_id(chat_->end) : tokenizer.eos_id();
  require(end.has_value(), ErrorKind::config, "template '", name_, "' needs ",
          own_end ? str("the token '", chat_->end, "'") : "an end-of-text token",
          ", which the tokenizer does not have");
  end_id_ = *end;
  const bool uses_bos = chat_ != nullptr && (chat_->begin == "{bos}" || chat_->name == "llama2");
  require(!uses_bos || !bos_.empty(), ErrorKind::config, "template '", name_,
          "' needs a begin-of-text token, which the tokenizer does not have");
  require(chat_ != nullptr || system.value_or("").empty(), ErrorKind::config, "template '", name_,
          "' has no place for a system message");
  if (system) {
    system_ = *system;
  } else if (chat_ != nullptr && chat_->name == "chatml") {
    system_ = default_system_message(tokenizer.chat_template());
  }
}

std::int32_t PromptTemplate::text_end_id() const {
  return tokenizer_.eos_id().value_or(end_id_);
}

std::string PromptTemplate::fingerprint() const {
  std::string text = name_;
  const auto add = [&](const Example& example) {
    const ChatText rendered = render(example);
    text += str('\0', rendered.prompt, '\0', rendered.response);
  };
  add(InstructionExample{"instruction", "input", "response"});
  add(InstructionExample{"instruction", "", "response"});
  if (chat_ != nullptr) {
    add(ChatExample{
        {{"system", "s"}, {"user", "u"}, {"assistant", "a"}, {"user", "v"}, {"assistant", "b"}}});
  }
  return data::fingerprint_of(text);
}

ChatText PromptTemplate::render_single(const InstructionExample& example) const {
  if (name_ == "dolly") return {dolly_prompt(example), example.response};
  if (const AlpacaForm* form = find_alpaca_form(name_))
    return {alpaca_prompt(*form, example), example.response};
  return {example.instruction + "\n" + (example.input.empty() ? "" : example.input + "\n"),
          example.response};
}

ChatText PromptTemplate::render_messages(std::vector<Message> messages) const {
  if (chat_ == nullptr) {
    require(messages.size() == 2 && messages[0].role == "user", ErrorKind::data, "template '",
            name_, "' holds one exchange, this conversation has ", messages.size(),
            " messages beginning with '", messages.empty() ? "" : messages[0].role,
            "'; a chat template is needed");
    return render_single({messages[0].content, "", messages[1].content});
  }
  if (!system_.empty() && !messages.empty() && messages[0].role != "system") {
    messages.insert(messages.begin(), {"system", system_});
  }
  return render_chat(*chat_, messages, bos_, eos_);
}

ChatText PromptTemplate::render(const Example& example) const {
  if (const auto* e = std::get_if<InstructionExample>(&example)) {
    if (chat_ == nullptr) return render_single(*e);
    return render_messages({{"user", user_text(*e)}, {"assistant", e->response}});
  }
  if (const auto* e = std::get_if<PromptExample>(&example)) {
    if (name_ == "plain") return {e->prompt, e->response};
    return render_messages({{"user", e->prompt}, {"assistant", e->response}});
  }
  if (const auto* e = std::get_if<ChatExample>(&example)) return render_messages(e->messages);
  return {"", std::get<TextExample>(example).text};
}

std::vector<std::int32_t> PromptTemplate::encode_text(const std::string& text) const {
  return tokenizer_.encode(text, chat_ != nullptr).ids;
}

EncodedExample PromptTemplate::encode(const Example& example) const {
  EncodedExample encoded;
  if (reply_of(example).empty()) return encoded;
  if (const auto* text = std::get_if<TextExample>(&example)) {
    encoded.ids = framed(tokenizer_.encode(text->text, false).ids);
    return encoded;
  }
  const ChatText text = render(example);
  const auto prompt = encode_text(text.prompt);
  auto whole = encode_text(text.prompt + text.response);
  if (whole.size() < prompt.size() || !std::equal(prompt.begin(), prompt.end(), whole.begin())) {
    encoded.boundary_split = true;
    whole = prompt;
    const auto response = encode_text(text.response);
    whole.insert(whole.end(), response.begin(), response.end());
  }
  const std::size_t prefix = chat_ == nullptr ? tokenizer_.prefix_ids().size() : 0;
  encoded.prompt_length = static_cast<std::int32_t>(prefix + prompt.size());
  encoded.ids = chat_ == nullptr ? framed(std::move(whole)) : std::move(whole);
  return encoded;
}

std::vector<std::int32_t> PromptTemplate::with_prefix(std::vector<std::int32_t> ids) const {
  const auto prefix = tokenizer_.prefix_ids();
  ids.insert(ids.begin(), prefix.begin(), prefix.end());
  return ids;
}

std::vector<std::int32_t> PromptTemplate::framed(std::vector<std::int32_t> ids) const {
  ids = with_prefix(std::move(ids));
  ids.push_back(text_end_id());
  return ids;
}

std::vector<std::int32_t> PromptTemplate::encode_prompt(const Example& example) const {
  auto ids = encode_text(render(example).prompt);
  return chat_ == nullptr ? with_prefix(std::move(ids)) : ids;
}

std::vector<std::int32_t> PromptTemplate::encode_prompt(std::span<const Message> messages) const {
  require(!messages.empty() && messages.back().role == "user", ErrorKind::data,
          "a prompt to generate from ends with a user's message");
  std::vector<Message> all(messages.begin(), messages.end());
  if (chat_ != nullptr) return encode_text(render_messages(std::move(all)).prompt);
  all.push_back({"assistant", ""});
  return encode_prompt(ChatExample{std::move(all)});
}

}  // namespace fathom::data_tools
