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

std::optional<PromptTemplate> make_template(const PromptRules& rules,
                                            const data::Tokenizer& tokenizer) {
  if (rules.template_name != kAsIs) {
    try {
      return PromptTemplate(rules.template_name, tokenizer, rules.system);
    } catch (const Error& error) {
      fail(error.kind(), error.what(), "; '", kAsIs, "' takes each record's own prompt");
    }
  }
  require(rules.system.value_or("").empty(), ErrorKind::config, "template '", kAsIs,
          "' has no place for a system message");
  return std::nullopt;
}

// False if the question leaves the set.
bool fit(std::vector<std::int32_t>& ids, const PromptRules& rules, QuestionPrompts& result) {
  require(!ids.empty(), ErrorKind::data, "the prompt has no tokens");
  const auto length = static_cast<std::int64_t>(ids.size());
  if (length <= rules.longest) return true;
  require(rules.overlong != data::Overlong::refuse, ErrorKind::data, "a prompt of ", length,
          " tokens where ", rules.longest, " are the most; leave such questions out or cut them");
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
  const std::optional<PromptTemplate> form = make_template(rules, tokenizer);
  QuestionPrompts result;
  result.template_name = form ? form->name() : kAsIs;
  if (form) result.end_ids.push_back(form->end_id());
  if (tokenizer.eos_id()) result.end_ids.push_back(*tokenizer.eos_id());
  for (Question& question : questions) {
    try {
      auto ids = form ? form->encode_prompt(question.example) : encode_as_is(question, tokenizer);
      if (!fit(ids, rules, result)) continue;
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

}  // namespace fathom::data_tools
