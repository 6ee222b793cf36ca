#include "data_tools/text/question_prompts.h"

#include <utility>

#include "core/error.h"
#include "data_tools/text/prompt_template.h"

namespace fathom::data_tools {
namespace {

constexpr const char* kAsIs = "as-is";

std::vector<std::int32_t> encode_as_is(const Question& question, const data::Tokenizer& tokenizer) {
  require(question.prompt.has_value(), ErrorKind::data,
          "no field 'prompt', which the template 'as-is' takes");
  const auto prefix = tokenizer.prefix_ids();
  std::vector<std::int32_t> ids(prefix.begin(), prefix.end());
  const data::Encoding text = tokenizer.encode(*question.prompt, true);
  ids.insert(ids.end(), text.ids.begin(), text.ids.end());
  return ids;
}

std::shared_ptr<const PromptTemplate> make_template(const PromptRules& rules,
                                                    const data::Tokenizer& tokenizer) {
  if (rules.template_name != kAsIs) {
    try {
      return std::make_shared<const PromptTemplate>(rules.template_name, tokenizer, rules.system);
    } catch (const Error& error) {
      fail(error.kind(), error.what(), "; '", kAsIs, "' takes each record's own prompt");
    }
  }
  require(rules.system.value_or("").empty(), ErrorKind::config, "template '", kAsIs,
          "' has no place for a system message");
  return nullptr;
}

std::vector<Message> messages_before(const Question& question,
                                     std::span<const std::string> answers) {
  std::vector<Message> messages = {{"user", question.text}};
  for (std::size_t turn = 0; turn < answers.size(); ++turn) {
    messages.push_back({"assistant", answers[turn]});
    messages.push_back({"user", question.later[turn].text});
  }
  return messages;
}

// The most tokens that the last prompt of a conversation needs.
std::int64_t longest_turn(const PromptTemplate* form, const Question& question,
                          std::int64_t answer) {
  require(form != nullptr, ErrorKind::data, "it has ", question.later.size() + 1,
          " turns, which the template '", kAsIs, "' cannot hold; a chat template is needed");
  const std::vector<std::string> silence(question.later.size());
  const auto ids = encode_turn(*form, question, silence);
  return std::ssize(ids) + std::ssize(question.later) * answer;
}

// False if the question leaves the set.
bool fit(std::vector<std::int32_t>& ids, const Question& question, const PromptRules& rules,
         QuestionPrompts& result) {
  require(!ids.empty(), ErrorKind::data, "the prompt has no tokens");
  const bool turns = !question.later.empty();
  const std::int64_t length =
      turns ? longest_turn(result.form.get(), question, rules.answer) : std::ssize(ids);
  if (length <= rules.longest) return true;
  const bool cut = rules.overlong == data::Overlong::truncate;
  require(rules.overlong != data::Overlong::refuse && !(cut && turns), ErrorKind::data,
          "a prompt of ", length, turns ? " tokens, with the answers before it," : " tokens",
          " where ", rules.longest, " are the most; leave such questions out",
          turns ? "" : " or cut them");
  if (rules.overlong == data::Overlong::skip) {
    ++result.skipped;
    return false;
  }
  ++result.truncated;
  ids.resize(static_cast<std::size_t>(rules.longest));
  return true;
}

}  // namespace

QuestionPrompts encode_questions(std::vector<Question> questions, const PromptRules& rules,
                                 const data::Tokenizer& tokenizer) {
  QuestionPrompts result;
  result.form = make_template(rules, tokenizer);
  const PromptTemplate* form = result.form.get();
  result.template_name = form != nullptr ? form->name() : kAsIs;
  if (form != nullptr) result.end_ids.push_back(form->end_id());
  if (tokenizer.eos_id()) result.end_ids.push_back(*tokenizer.eos_id());
  for (Question& question : questions) {
    try {
      auto ids = form != nullptr ? form->encode_prompt(question.example)
                                 : encode_as_is(question, tokenizer);
      if (!fit(ids, question, rules, result)) continue;
      result.ids.push_back(std::move(ids));
    } catch (const Error& error) {
      fail(error.kind(), "question '", question.id, "': ", error.what());
    }
    result.questions.push_back(std::move(question));
  }
  require(!result.questions.empty(), ErrorKind::data, "each of the ", result.skipped,
          " questions has a prompt of more than ", rules.longest, " tokens");
  return result;
}

std::vector<std::int32_t> encode_turn(const PromptTemplate& form, const Question& question,
                                      std::span<const std::string> answers) {
  return form.encode_prompt(messages_before(question, answers));
}

}  // namespace fathom::data_tools
