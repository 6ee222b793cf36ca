#include "launch/commands/answer_files.h"

#include <filesystem>
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

std::string answer_lines(const AnswerPlan& plan, const std::vector<SeedAnswers>& all) {
  std::string lines;
  for (const SeedAnswers& seed : all) {
    for (std::size_t i = 0; i < seed.answers.size(); ++i) {
      const Question& question = plan.prompts.questions[i];
      const Answer& answer = seed.answers[i];
      json record = {{"id", question.id},
                     {"model", plan.model},
                     {"seed", seed.seed},
                     {"question", question.text},
                     {"prompt", plan.tokenizer->decode(plan.prompts.ids[i], false)},
                     {"answer", answer.text},
                     {"references", question.references},
                     {"tokens", answer.tokens},
                     {"ended", answer.ended}};
      if (answer.rouge_l) record["rouge_l"] = *answer.rouge_l;
      lines += line_of(record);
    }
  }
  return lines;
}

json judge_record(const Question& question, const eval::JudgePrompt& prompt) {
  return {{"id", question.id},
          {"messages", json::array({{{"role", "system"}, {"content", prompt.system}},
                                    {{"role", "user"}, {"content", prompt.user}}})}};
}

// One request for a mark, or two for a comparison in both orders.
std::string judge_lines(const AnswerPlan& plan, const SeedAnswers& answers) {
  std::string lines;
  for (std::size_t i = 0; i < answers.answers.size(); ++i) {
    const Question& question = plan.prompts.questions[i];
    const std::string& own = answers.answers[i].text;
    std::optional<std::string> reference;
    if (!question.references.empty()) reference = question.references.front();
    if (plan.rivals.empty()) {
      json record = judge_record(question, eval::judge_one(question.text, own, reference));
      record.update({{"kind", "single"}, {"model", plan.model}, {"seed", answers.seed}});
      lines += line_of(record);
      continue;
    }
    const RivalAnswer& rival = plan.rivals[i];
    const auto compare = [&](const RivalAnswer& a, const RivalAnswer& b) {
      json record =
          judge_record(question, eval::judge_pair(question.text, a.text, b.text, reference));
      record.update(
          {{"kind", "pair"}, {"model_a", a.model}, {"model_b", b.model}, {"seed", answers.seed}});
      lines += line_of(record);
    };
    compare({plan.model, own}, rival);
    compare(rival, {plan.model, own});
  }
  return lines;
}

struct GivenAnswer {
  std::string question;
  RivalAnswer answer;
};

std::map<std::string, GivenAnswer> read_answers(const std::string& file) {
  std::map<std::string, GivenAnswer> answers;
  data::Fingerprint unused;
  data_tools::LineReader lines(file, unused);
  for (std::string line; lines.next(line);) {
    if (data_tools::is_blank(line)) continue;
    try {
      const json record = data_tools::parse_object(line);
      answers.try_emplace(data_tools::required_text(record, "id"),
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

void check_folders(const options::AnswerOptions& options) {
  for (const std::string& file : {options.answers, options.judge}) {
    if (file.empty()) continue;
    const auto folder = std::filesystem::absolute(file).parent_path();
    require(std::filesystem::is_directory(folder), ErrorKind::io, file,
            ": cannot be written, there is no folder ", folder.string());
  }
}

std::vector<RivalAnswer> read_rivals(const std::string& file,
                                     const std::vector<Question>& questions) {
  const auto answers = read_answers(file);
  std::vector<RivalAnswer> rivals;
  for (const Question& question : questions) {
    const auto found = answers.find(question.id);
    require(found != answers.end(), ErrorKind::data, file, ": no answer to question '", question.id,
            "'");
    require(found->second.question == question.text, ErrorKind::data, file, ": question '",
            question.id, "' was another one: \"", found->second.question.substr(0, 60), "\"");
    rivals.push_back(found->second.answer);
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
