#include "train/row_alpha.h"

#include <algorithm>
#include <numeric>

namespace fathom::train {

using data::Role;

void RowAlpha::begin(const data::RoleCounts& counts) {
  for (const Role role : {Role::chosen, Role::rejected})
    sides_[index(role)] = {
        .count = static_cast<double>(std::max<std::int64_t>(1, counts[role].sequences))};
}

Tensor RowAlpha::of_rows(Device& device, const data::MicroBatch& batch,
                         const model::LabelLogProbs& seen) {
  const bool teachers = batch.role == Role::chosen;
  const std::vector<float>& writer = teachers ? seen.teacher : seen.student;
  const std::vector<float>& other = teachers ? seen.student : seen.teacher;
  Side& side = sides_[index(batch.role)];
  std::vector<float> alphas;
  for (const std::int64_t rows : data::supervised_rows(batch)) {
    if (rows == 0) continue;
    const auto mean = [&](const std::vector<float>& values) {
      const auto begin = values.begin() + std::ssize(alphas);
      return std::accumulate(begin, begin + rows, 0.0) / static_cast<double>(rows);
    };
    const double gap = methods::distill::answer_gap(mean(writer), mean(other));
    const double alpha =
        reference_ ? methods::distill::curriculum_alpha(
                         alpha_, teachers ? reference_->chosen : reference_->rejected, gap)
                   : alpha_;
    side.gap += gap;
    side.alpha += alpha;
    alphas.insert(alphas.end(), static_cast<std::size_t>(rows), static_cast<float>(alpha));
  }
  return Tensor::from_host(device, {std::ssize(alphas)}, std::span<const float>(alphas));
}

void RowAlpha::finish(comm::Communicator& dp, comm::Communicator& pp) {
  double sums[] = {sides_[0].alpha, sides_[0].gap, sides_[1].alpha, sides_[1].gap};
  for (comm::Communicator* group : {&dp, &pp})
    group->all_reduce(sums, std::size(sums), comm::ReduceOp::sum);
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    sides_[i].alpha = sums[2 * i];
    sides_[i].gap = sums[2 * i + 1];
  }
  if (!reference_) reference_ = {sides_[0].mean_gap(), sides_[1].mean_gap()};
}

std::vector<methods::StateTerm> RowAlpha::terms() const {
  std::vector<methods::StateTerm> terms;
  for (const Role role : {Role::chosen, Role::rejected}) {
    const Side& side = sides_[index(role)];
    const std::string name = role == Role::chosen ? "_chosen" : "_rejected";
    terms.push_back({"alpha" + name, 0, side.alpha, side.count});
    terms.push_back({"gap" + name, 0, side.gap, side.count});
  }
  return terms;
}

}  // namespace fathom::train
