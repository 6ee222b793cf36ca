#include "train/answer_writer.h"

#include <algorithm>

#include "core/timer.h"
#include "generate/replicas.h"

namespace fathom::train {

using methods::distill::AnsweredPrompt;

namespace {

generate::GeneratorOptions completed(generate::GeneratorOptions options,
                                     const data::Dataset& dataset, const model::ModelSpec& spec) {
  options.stoppable = true;
  options.vocab = dataset.file().info().vocab_size;  // what its tokenizer has a text for
  // The last token is a label only and takes no position.
  options.context = std::min(dataset.context() + 1, spec.max_positions);
  options.stop_ids = spec.eos_ids;
  const std::int32_t end = dataset.file().info().eos_id;
  if (end >= 0) options.stop_ids.push_back(end);
  return options;
}

}  // namespace

AnswerWriter::AnswerWriter(const data::Dataset& dataset, generate::GeneratorOptions options,
                           const model::Stage& stage, comm::ProcessGrid& grid)
    : dataset_(dataset),
      grid_(grid),
      options_(completed(std::move(options), dataset, stage.spec())),
      pad_id_(stage.spec().pad_id),
      generator_(stage, grid, options_) {
  bool any = false;
  for (std::int64_t r = 0; r < dataset.records() && !any; ++r) any = answerable(r);
  require(any, ErrorKind::data, dataset.file().path().string(),
          ": no record has a prompt that leaves room for an answer within ", options_.context,
          " tokens; tokenize prompts and responses with a template");
}

bool AnswerWriter::answerable(std::int64_t record) const {
  const std::int32_t prompt = dataset_.prompt_length(record);
  return prompt > 0 && prompt < options_.context;
}

bool AnswerWriter::usable(std::span<const std::int32_t> answer) const {
  const auto& ends = options_.stop_ids;
  // Padding that is an end of text as well is one here.
  const bool pads = std::find(ends.begin(), ends.end(), pad_id_) == ends.end();
  return !pads ||
         std::any_of(answer.begin(), answer.end(), [&](std::int32_t id) { return id != pad_id_; });
}

std::vector<AnsweredPrompt> AnswerWriter::write(const std::vector<Sample>& samples) {
  const Timer timer;
  std::vector<AnsweredPrompt> texts;
  std::vector<generate::Prompt> prompts;
  for (const Sample& sample : samples) {
    if (!answerable(sample.record)) continue;
    const data::TokenRecord record = dataset_.record(sample.record);
    const auto prompt = record.ids.first(static_cast<std::size_t>(record.prompt_length));
    texts.push_back({.sample = sample.number,
                     .record = dataset_.file_record(sample.record),
                     .prompt_length = record.prompt_length,
                     .ids = {prompt.begin(), prompt.end()}});
    prompts.push_back({texts.back().ids, static_cast<std::uint64_t>(sample.number)});
  }
  generate::TokenCallback told;
  if (progress) told = [this](std::size_t, const generate::Choice&) { progress(); };
  generate::EndCallback told_end;
  if (answered)
    told_end = [&](std::size_t prompt, std::span<const std::int32_t> ids) {
      AnsweredPrompt text = texts[prompt];
      if (!usable(ids.subspan(text.ids.size()))) return;
      text.ids.assign(ids.begin(), ids.end());
      answered(text);
    };
  const auto answers = generate::generate_over_replicas(generator_, grid_, prompts, told, told_end);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector<std::int32_t>& answer = answers[i].ids;
    totals_.tokens += static_cast<std::int64_t>(answer.size());
    if (!usable(answer)) continue;
    texts[i].ids.insert(texts[i].ids.end(), answer.begin(), answer.end());
  }
  std::erase_if(texts, [](const AnsweredPrompt& text) {
    return text.ids.size() == static_cast<std::size_t>(text.prompt_length);
  });
  totals_.left_out += static_cast<std::int64_t>(samples.size() - texts.size());
  totals_.seconds += timer.seconds();
  return texts;
}

}  // namespace fathom::train
