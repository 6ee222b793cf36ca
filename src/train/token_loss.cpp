#include "train/token_loss.h"

#include <algorithm>

namespace fathom::train {

using data::Role;

namespace {

// What a term of a role is a mean of.
Normalise normalise(const LossConfig& config, Role role) {
  if (role == Role::corpus) return Normalise::tokens;
  if (role == Role::chosen || role == Role::rejected) return Normalise::sequences;
  return config.normalise;
}

double per(Normalise unit, const data::BatchCounts& counts) {
  const std::int64_t count = unit == Normalise::sequences ? counts.sequences : counts.label_tokens;
  return 1.0 / static_cast<double>(std::max<std::int64_t>(1, count));
}

kernels::DivergenceForm divergence(const LossConfig& config, Role role) {
  kernels::DivergenceForm form{.kind = config.divergence,
                               .beta = static_cast<float>(config.beta),
                               .alpha = static_cast<float>(config.alpha),
                               .detach_mixture = config.detach_mixture};
  if (role == Role::chosen) form.kind = Divergence::skew_kl;
  if (role == Role::rejected) {
    form.kind = Divergence::skew_reverse_kl;
    form.detach_mixture = true;
  }
  return form;
}

}  // namespace

kernels::TokenLoss token_loss(const LossConfig& config, const data::RoleCounts& counts, Role role) {
  const Normalise unit = normalise(config, role);
  const double t2 = config.scale_t2 ? config.temperature * config.temperature : 1;
  data::BatchCounts taught = counts[Role::dataset];
  taught += counts[Role::student_text];
  double ce = 0, kd = 0;
  switch (role) {
    case Role::dataset:
      ce = config.ce_weight * per(unit, counts[Role::dataset]);
      kd = config.kd_weight * per(unit, taught);
      break;
    case Role::student_text:
      kd = config.kd_weight * per(unit, taught);
      break;
    case Role::corpus:
      ce = config.corpus_weight * per(unit, counts[Role::corpus]);
      break;
    case Role::chosen:
      kd = config.kd_weight * (2 - config.rejected_weight) * per(unit, counts[Role::chosen]);
      break;
    case Role::rejected:
      kd = config.kd_weight * config.rejected_weight * per(unit, counts[Role::rejected]);
      break;
  }
  return {.ce_weight = static_cast<float>(ce),
          .kd_weight = static_cast<float>(kd * t2),
          .temperature = static_cast<float>(config.temperature),
          .divergence = divergence(config, role)};
}

Tensor row_weights(Device& device, const LossConfig& config, const data::MicroBatch& batch) {
  if (normalise(config, batch.role) == Normalise::tokens) return {};
  std::vector<float> weights;
  for (const std::int64_t rows : data::supervised_rows(batch))
    weights.insert(weights.end(), static_cast<std::size_t>(2 * rows),
                   1.0f / static_cast<float>(rows));
  return Tensor::from_host(device, {static_cast<std::int64_t>(weights.size()) / 2, 2},
                           std::span<const float>(weights));
}

model::LossSums RoleSums::total() const {
  model::LossSums total;
  for (const model::LossSums& sums : sums_) total += sums;
  return total;
}

void RoleSums::all_reduce(comm::Communicator& group) {
  std::vector<double> values;
  std::vector<std::int64_t> counts;
  for (const model::LossSums& s : sums_) {
    values.insert(values.end(), {s.cross_entropy, s.divergence, s.objective});
    counts.insert(counts.end(), {s.correct, s.tokens});
  }
  group.all_reduce(values.data(), values.size(), comm::ReduceOp::sum);
  group.all_reduce(counts.data(), counts.size(), comm::ReduceOp::sum);
  for (std::size_t i = 0; i < sums_.size(); ++i)
    sums_[i] = {values[3 * i], values[3 * i + 1], values[3 * i + 2], counts[2 * i],
                counts[2 * i + 1]};
}

std::vector<NamedValue> loss_parts(const TrainConfig& config, const RoleSums& sums) {
  const auto mean = [](double sum, const model::LossSums& over) {
    return sum / static_cast<double>(std::max<std::int64_t>(1, over.tokens));
  };
  const auto divergence = [&](Divergence kind, const model::LossSums& over) {
    return NamedValue{to_string(kind), mean(over.divergence, over)};
  };
  std::vector<NamedValue> parts;
  if (config.distill.method == DistillMethod::contrastive) {
    parts = {divergence(Divergence::skew_kl, sums[Role::chosen]),
             divergence(Divergence::skew_reverse_kl, sums[Role::rejected])};
  } else {
    const model::LossSums& dataset = sums[Role::dataset];
    model::LossSums taught = dataset;
    taught += sums[Role::student_text];
    parts = {{"ce", mean(dataset.cross_entropy, dataset)}};
    if (!config.teacher.path.empty()) parts.push_back(divergence(config.loss.divergence, taught));
  }
  if (!config.data.corpus.empty())
    parts.push_back({"corpus", mean(sums[Role::corpus].cross_entropy, sums[Role::corpus])});
  return parts;
}

}  // namespace fathom::train
