#include "methods/distill/fdd_loss.h"

#include "methods/key_sites.h"

namespace fathom::methods::distill {

FddLoss::FddLoss(comm::Communicator& dp, FddSettings settings)
    : dp_(dp), settings_(std::move(settings)) {}

std::vector<Site> FddLoss::sites() const {
  return {head_site(settings_.layers)};
}

void FddLoss::begin(const std::vector<data::MicroBatch>& batches) {
  sums_ = {};
  counts_.clear();
  std::int64_t tokens = 0;
  for (const data::MicroBatch& batch : batches) {
    counts_.push_back(!batch.empty() && batch.role != data::Role::corpus);
    if (counts_.back()) tokens += batch.tokens();
  }
  dp_.all_reduce(&tokens, 1, comm::ReduceOp::sum);
  tokens_ = static_cast<double>(tokens);
}

void FddLoss::apply(autograd::Tape* tape, int slot, std::size_t, const KeyStates& states,
                    model::Readback& later) {
  if (!counts_.at(static_cast<std::size_t>(slot))) return;
  KeyLayerStates student{.states = {}, .head = states.student_head.matrix};
  KeyLayerStates teacher{.states = {}, .head = states.teacher_head.matrix};
  for (const KeyLayer& pair : settings_.layers) {
    student.states.push_back(states.student_head.project(states.student(pair.student)));
    teacher.states.push_back(
        states.teacher_head.project(autograd::Var(states.teacher(pair.teacher))));
  }
  const double layers = static_cast<double>(settings_.layers.size());
  FddOptions options;
  options.loss.trajectory_weight =
      static_cast<float>(settings_.trajectory_weight / (tokens_ * layers));
  if (settings_.derivative_weight > 0)
    options.loss.derivative_weight =
        static_cast<float>(settings_.derivative_weight / (tokens_ * pairs()));
  options.loss.temperature = settings_.temperature;
  options.vocab = states.student_head.vocab;
  options.chunk_rows = settings_.chunk_rows;
  later.add(fdd_losses(tape, states.student_head.tp, options, student, teacher),
            [this](const std::vector<float>& results) { sums_ += sum_dynamics(results); });
}

std::vector<StateTerm> FddLoss::terms() const {
  const double layers = static_cast<double>(settings_.layers.size());
  std::vector<StateTerm> terms;
  if (settings_.trajectory_weight > 0)
    terms.push_back(
        {"fdd_trajectory", settings_.trajectory_weight, sums_.trajectory, tokens_ * layers});
  if (settings_.derivative_weight > 0)
    terms.push_back(
        {"fdd_derivative", settings_.derivative_weight, sums_.derivative, tokens_ * pairs()});
  return terms;
}

}  // namespace fathom::methods::distill
