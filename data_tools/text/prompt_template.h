#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "data_tools/text/chat_format.h"
#include "data_tools/text/example.h"

namespace fathom::data_tools {

/// An example as token ids, and where its response begins.
struct EncodedExample {
  std::vector<std::int32_t> ids;  ///< empty: the example has no response (or no text)
  std::int32_t prompt_length = 0;
  /// The tokenizer would have merged the end of the prompt with the start of the response.
  bool boundary_split = false;
};

/// How examples become the text that a model reads, bound to one tokenizer.
///
///   plain    prompt and response as they stand; instruction, input and a line break before the
///   response
///   alpaca   the Alpaca form, with or without "### Input:"
///   alpaca_train, alpaca_eval   the same as LLM-Adapters (Hu et al., 2023) wrote it to train on
///   commonsense_170k and math_10k, and to evaluate: each line but the first behind 16 blanks, and
///   trailing blanks that differ between the two. For comparisons with published numbers.
///   dolly    the form of databricks-dolly, with or without "Input:"
///   chatml, llama2, llama3, mistral, zephyr   conversations as the families' chat templates write
///   them
///   auto     the family whose chat_template the tokenizer carries
///
/// Instructions with an input become one user message, a blank line between the two. Conversations
/// in all but the chat templates must be one exchange without a system message. A TextExample is
/// never templated.
///
/// Ids: prompt and response are encoded as one text and the prompt alone; where the ids of the
/// prompt are not the first ids of the whole (a merge across the boundary), the response is encoded
/// alone and appended, so that training sees the prompt as generation will. Chat templates write
/// their own special tokens, which are recognised anywhere in the text, as transformers does;
/// the others put the tokenizer's prefix ids in front, its end-of-text id at the end, and read
/// special tokens in the text as ordinary characters.
class PromptTemplate {
 public:
  /// `system` replaces the default system message of a conversation that has none ("" for none).
  /// Throws Error(config) for an unknown name or a chat_template that `auto` does not know (listing
  /// the names), or a tokenizer without the tokens that the template needs. The tokenizer must
  /// outlive the template.
  PromptTemplate(const std::string& name, const data::Tokenizer& tokenizer,
                 std::optional<std::string> system = std::nullopt);

  /// Never "auto".
  const std::string& name() const { return name_; }
  /// The id that ends every record and at which generation stops.
  std::int32_t end_id() const { return end_id_; }
  /// The id that ends a text without a template.
  std::int32_t text_end_id() const;
  const std::string& system() const { return system_; }
  /// xxh64 over the name and a rendering that uses every part of the template.
  std::string fingerprint() const;

  /// Prompt and response as text; the end included for chat templates. Throws Error(data) for a
  /// conversation that the template cannot hold.
  ChatText render(const Example& example) const;
  EncodedExample encode(const Example& example) const;

  /// Ids to generate a response from, whatever response the example has: those that encode() puts
  /// in front of it. A TextExample has none.
  std::vector<std::int32_t> encode_prompt(const Example& example) const;
  /// The same for [system] user (assistant user)*.
  std::vector<std::int32_t> encode_prompt(std::span<const Message> messages) const;

 private:
  ChatText render_single(const InstructionExample& example) const;
  ChatText render_messages(std::vector<Message> messages) const;
  std::vector<std::int32_t> encode_text(const std::string& text) const;
  std::vector<std::int32_t> with_prefix(std::vector<std::int32_t> ids) const;
  std::vector<std::int32_t> framed(std::vector<std::int32_t> ids) const;

  const data::Tokenizer& tokenizer_;
  std::string name_;
  const ChatFormat* chat_ = nullptr;  ///< nullptr for those that hold one exchange
  std::string system_;
  std::string bos_;
  std::string eos_;
  std::int32_t end_id_ = 0;
};

/// All names, as a list for messages.
std::string template_names();

}  // namespace fathom::data_tools
