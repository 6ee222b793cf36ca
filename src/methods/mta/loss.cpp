#include "methods/mta/loss.h"

#include <algorithm>
#include <cmath>

#include "core/parameter_names.h"
#include "methods/key_sites.h"

namespace fathom::methods::mta {
namespace {

// The weight of a term in the gradient of one key layer; 0 where no sample contributes.
float share(double weight, std::int64_t samples, std::size_t layers) {
  if (samples == 0) return 0;
  return static_cast<float>(weight / (static_cast<double>(samples) * static_cast<double>(layers)));
}

double mean(double sum, std::int64_t samples) {
  return samples == 0 ? 0 : sum / static_cast<double>(samples);
}

}  // namespace

MtaLoss::MtaLoss(Device& device, comm::Communicator& dp, Settings settings, SpansOf spans_of,
                 bool counts_idle)
    : device_(device),
      dp_(dp),
      settings_(std::move(settings)),
      spans_of_(std::move(spans_of)),
      counts_idle_(counts_idle),
      projectors_(settings_.layers.size()) {
  FATHOM_CHECK(settings_.levels.size() == settings_.layers.size(), settings_.levels.size(),
               " levels for ", settings_.layers.size(), " key layers");
}

std::vector<Site> MtaLoss::sites() const {
  return pair_sites(settings_.layers);
}

void MtaLoss::declare(const std::vector<std::size_t>& sites, bool owned,
                      model::ParameterSet& parameters) {
  if (settings_.hid_weight == 0) return;
  const std::int64_t in = settings_.student_width, out = settings_.teacher_width;
  for (const std::size_t site : sites) {
    const std::string name =
        str(kMethodPrefix, "mta.projector.", settings_.layers[site].student, ".");
    const auto declare = [&](autograd::Var& var, const char* part_name, Shape shape,
                             double init_std) {
      const std::int64_t columns = shape.dims() == 2 ? shape[1] : 1;
      model::PartDeclaration part;
      part.name = name + part_name;
      part.shape = shape;
      part.pieces = {{.rows = shape[0], .columns = columns}};
      part.local_rows = shape[0];
      part.owned = owned;
      part.init_std = init_std;
      part.lr_scale = settings_.lr_scale;
      parameters.declare(&var, shape, {std::move(part)});
    };
    // The variance of a linear layer's usual uniform start.
    declare(projectors_[site].weight, "weight", {out, in},
            1.0 / std::sqrt(3.0 * static_cast<double>(in)));
    declare(projectors_[site].bias, "bias", {out}, 0);
  }
}

std::vector<RowSpan> MtaLoss::rows_of(const std::vector<data::spans::Span>& spans,
                                      std::int32_t first_row, std::int32_t prompt_length) const {
  std::vector<RowSpan> rows;
  for (const data::spans::Span& span : spans)
    if (settings_.region == SpanRegion::all || span.begin >= prompt_length)
      rows.push_back({first_row + span.begin, first_row + span.end});
  return rows;
}

bool MtaLoss::contributes(std::size_t words, std::size_t phrases) const {
  const std::size_t needed = settings_.hid_weight > 0 ? 1 : 2;  // one span has no other
  return std::any_of(settings_.levels.begin(), settings_.levels.end(), [&](Level level) {
    return (level == Level::words ? words : phrases) >= needed;
  });
}

MtaLoss::Spans MtaLoss::take_spans(const data::MicroBatch& batch,
                                   const std::vector<data::spans::TokenSpans>& found) {
  if (batch.empty() || batch.role == data::Role::corpus) return {};
  SpanList words, phrases;
  for (std::int64_t s = 0; s < batch.sequences(); ++s) {
    const data::spans::TokenSpans& spans = found.at(static_cast<std::size_t>(s));
    const std::int32_t first_row = batch.cu_seqlens[static_cast<std::size_t>(s)];
    const auto of_words = rows_of(spans.words, first_row, spans.prompt_length);
    const auto of_phrases = rows_of(spans.phrases, first_row, spans.prompt_length);
    words.add_sample(of_words);
    phrases.add_sample(of_phrases);
    idle_ += contributes(of_words.size(), of_phrases.size()) ? 0 : 1;
  }
  for (auto [level, list] : {std::pair{&words_, &words}, std::pair{&phrases_, &phrases}}) {
    level->dsa += list->dsa_samples();
    level->hid += list->hid_samples();
  }
  return {LevelSpans(device_, batch, std::move(words)),
          LevelSpans(device_, batch, std::move(phrases))};
}

void MtaLoss::begin(const std::vector<data::MicroBatch>& batches) {
  words_ = phrases_ = {};
  idle_ = 0;
  spans_.clear();
  sums_.assign(settings_.layers.size(), {});
  const auto found = spans_of_(batches);
  FATHOM_CHECK(found.size() == batches.size(), "spans of ", found.size(), " micro-batches");
  for (std::size_t slot = 0; slot < batches.size(); ++slot)
    spans_.push_back(take_spans(batches[slot], found[slot]));
  std::int64_t counts[] = {words_.dsa, words_.hid, phrases_.dsa, phrases_.hid};
  dp_.all_reduce(counts, std::size(counts), comm::ReduceOp::sum);
  words_ = {counts[0], counts[1]};
  phrases_ = {counts[2], counts[3]};
}

void MtaLoss::apply(autograd::Tape* tape, int slot, std::size_t site, const KeyStates& states,
                    model::Readback& later) {
  const Spans& spans = spans_.at(static_cast<std::size_t>(slot));
  const auto& level = settings_.levels[site] == Level::words ? spans.words : spans.phrases;
  if (!level || level->spans() == 0) return;
  const Samples& count = samples(site);
  const std::size_t layers = settings_.layers.size();
  const AlignOptions options{.normalise = settings_.normalise,
                             .dsa_weight = share(settings_.dsa_weight, count.dsa, layers),
                             .hid_weight = share(settings_.hid_weight, count.hid, layers)};
  const KeyLayer& pair = settings_.layers[site];
  const AlignResults results = align_states(tape, options, *level, states.student(pair.student),
                                            states.teacher(pair.teacher), projectors_[site]);
  AlignSums& sums = sums_[site];
  sums.dsa_samples += results.dsa_samples;
  sums.hid_samples += results.hid_samples;
  later.add(results.dsa, [&sums](const auto& values) { sums.dsa += total(values); });
  later.add(results.hid, [&sums](const auto& values) { sums.hid += total(values); });
}

std::vector<StateTerm> MtaLoss::terms() const {
  StateTerm dsa{"mta_dsa", settings_.dsa_weight, 0, static_cast<double>(settings_.layers.size())};
  StateTerm hid = dsa;
  hid.name = "mta_hid";
  hid.weight = settings_.hid_weight;
  for (std::size_t site = 0; site < sums_.size(); ++site) {
    dsa.sum += mean(sums_[site].dsa, samples(site).dsa);
    hid.sum += mean(sums_[site].hid, samples(site).hid);
  }
  std::vector<StateTerm> terms;
  if (dsa.weight != 0) terms.push_back(dsa);
  if (hid.weight != 0) terms.push_back(hid);
  terms.push_back({"mta_idle", 0, counts_idle_ ? static_cast<double>(idle_) : 0.0, 1});
  return terms;
}

}  // namespace fathom::methods::mta
