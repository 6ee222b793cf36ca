#include "launch/commands/answer_files.h"

#include <map>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "data/fingerprint.h"
#include "data_tools/text/json_fields.h"
#include "data_tools/text/line_reader.h"
#include "eval/judge.h"

namespace fathom::launch {
namespace {

using data_tools::Question;
using nlohmann::json;

// Model output may be cut in the middle of a character: such bytes become U+FFFD.
std::string line_of(const json& record) {
  return record.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

const std::string& text_of(const Question& question, std::size_t turn) {
  return turn == 0 ? question.text : question.later[turn - 1].text;
}
const std::vector<std::string>& references_of(const Question& question, std::size_t turn) {
  return turn == 0 ? question.references : question.later[turn - 1].references;
}

json answer_record(const AnswerPlan& plan, std::size_t question, const std::vector<Answer>& turns,
                   std::size_t turn) {
  const Question& asked = plan.prompts.questions[question];
  const Answer& answer = turns[turn];
  const std::vector<Answer> before(turns.begin(),
                                   turns.begin() + static_cast<std::ptrdiff_t>(turn));
  json record = {{"id", asked.id},
                 {"model", plan.model},
                 {"turn", turn + 1},
                 {"question", text_of(asked, turn)},
                 {"prompt", plan.tokenizer->decode(prompt_ids(plan, question, before), false)},
                 {"answer", answer.text},
                 {"references", references_of(asked, turn)},
                 {"tokens", answer.tokens},
                 {"ended", answer.ended}};
  if (answer.rouge_l) record["rouge_l"] = *answer.rouge_l;
  if (answer.grades) {
    record.update({{"task", asked.task}, {"label", asked.label}});
    record.update(to_json(*answer.grades));
  }
  return record;
}

std::string answer_lines(const AnswerPlan& plan, const std::vector<SeedAnswers>& all) {
  std::string lines;
  for (const SeedAnswers& seed : all)
    for (std::size_t i = 0; i < seed.answers.size(); ++i)
      for (std::size_t turn = 0; turn < seed.answers[i].size(); ++turn) {
        json record = answer_record(plan, i, seed.answers[i], turn);
        record["seed"] = seed.seed;
        lines += line_of(record);
      }
  return lines;
}

json judge_record(const Question& question, const std::vector<eval::Exchange>& conversation,
                  const eval::JudgePrompt& prompt) {
  return {{"id", question.id},
          {"turn", conversation.size()},
          {"messages", json::array({{{"role", "system"}, {"content", prompt.system}},
                                    {{"role", "user"}, {"content", prompt.user}}})}};
}

using Conversation = std::vector<eval::Exchange>;

// A question's turns with some model's answers.
template <typename Answers>
Conversation conversation_of(const Question& question, const Answers& answers) {
  Conversation conversation;
  for (std::size_t turn = 0; turn < answers.size(); ++turn) {
    const auto& references = references_of(question, turn);
    conversation.push_back({text_of(question, turn), answers[turn].text,
                            references.empty() ? std::nullopt : std::optional(references.front())});
  }
  return conversation;
}

// One request for a mark for the last answer.
std::string judge_one_line(const AnswerPlan& plan, const Question& question,
                           const Conversation& own, int seed) {
  json record = judge_record(question, own, eval::judge_one(own));
  record.update({{"kind", "single"}, {"model", plan.model}, {"seed", seed}});
  return line_of(record);
}

// Two requests for a comparison of the last answers, in both orders.
std::string judge_pair_lines(const AnswerPlan& plan, const Question& question,
                             const Conversation& own, const Conversation& rival,
                             const std::string& rival_model, int seed) {
  const auto compare = [&](const Conversation& a, const std::string& model_a, const Conversation& b,
                           const std::string& model_b) {
    json record = judge_record(question, a, eval::judge_pair(a, b));
    record.update({{"kind", "pair"}, {"model_a", model_a}, {"model_b", model_b}, {"seed", seed}});
    return line_of(record);
  };
  return compare(own, plan.model, rival, rival_model) +
         compare(rival, rival_model, own, plan.model);
}

// What is asked about every turn of every question.
std::string judge_lines(const AnswerPlan& plan, const SeedAnswers& seed) {
  std::string lines;
  for (std::size_t i = 0; i < seed.answers.size(); ++i) {
    const Question& question = plan.prompts.questions[i];
    Conversation own = conversation_of(question, seed.answers[i]), rival;
    if (!plan.rivals.empty()) rival = conversation_of(question, plan.rivals[i]);
    for (std::size_t turns = 1; turns <= seed.answers[i].size(); ++turns) {
      const Conversation said(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(turns));
      if (rival.empty()) {
        lines += judge_one_line(plan, question, said, seed.seed);
        continue;
      }
      const Conversation other(rival.begin(), rival.begin() + static_cast<std::ptrdiff_t>(turns));
      lines +=
          judge_pair_lines(plan, question, said, other, plan.rivals[i][turns - 1].model, seed.seed);
    }
  }
  return lines;
}

struct GivenAnswer {
  std::string question;
  RivalAnswer answer;
};

std::int64_t turn_of(const json& record) {
  const auto turn = record.find("turn");
  return turn != record.end() && turn->is_number_integer() ? turn->get<std::int64_t>() : 1;
}

// By id and turn.
using GivenAnswers = std::map<std::pair<std::string, std::int64_t>, GivenAnswer>;

GivenAnswers read_answers(const std::string& file) {
  GivenAnswers answers;
  data::Fingerprint unused;
  data_tools::LineReader lines(file, unused);
  for (std::string line; lines.next(line);) {
    if (data_tools::is_blank(line)) continue;
    try {
      const json record = data_tools::parse_object(line);
      answers.try_emplace({data_tools::required_text(record, "id"), turn_of(record)},
                          GivenAnswer{data_tools::required_text(record, "question"),
                                      {data_tools::required_text(record, "model"),
                                       data_tools::required_text(record, "answer")}});
    } catch (const Error& error) {
      fail(error.kind(), file, ":", lines.line_number(), ": ", error.what());
    }
  }
  return answers;
}

}  // namespace

std::vector<std::vector<RivalAnswer>> read_rivals(const std::string& file,
                                                  const std::vector<Question>& questions) {
  const GivenAnswers answers = read_answers(file);
  std::vector<std::vector<RivalAnswer>> rivals;
  for (const Question& question : questions) {
    rivals.emplace_back();
    for (std::size_t turn = 0; turn <= question.later.size(); ++turn) {
      const auto found = answers.find({question.id, static_cast<std::int64_t>(turn) + 1});
      const std::string which = str(file, turn == 0 ? "" : str(": turn ", turn + 1));
      require(found != answers.end(), ErrorKind::data, which, ": no answer to question '",
              question.id, "'");
      const std::string& asked = found->second.question;
      require(asked == text_of(question, turn), ErrorKind::data, which, ": question '", question.id,
              "' was another one: \"", asked.substr(0, 60), "\"");
      rivals.back().push_back(found->second.answer);
    }
  }
  return rivals;
}

void write_answer_files(const AnswerPlan& plan, const std::vector<SeedAnswers>& all) {
  if (!plan.options.answers.empty())
    files::write_text_atomically(plan.options.answers, answer_lines(plan, all));
  if (!plan.options.judge.empty())
    files::write_text_atomically(plan.options.judge, judge_lines(plan, all.front()));
}

}  // namespace fathom::launch
