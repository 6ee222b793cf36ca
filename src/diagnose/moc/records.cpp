#include "diagnose/moc/records.h"

namespace fathom::diagnose::moc {

using autograd::Var;

std::vector<SiteRecord> record(Subject& subject, Passage& passage, bool with_parts) {
  std::vector<SiteRecord> records;
  const Var first(subject.embed(passage));
  subject.run(passage, nullptr, first, [&](const SiteCall& call) {
    SiteRecord made{.layer = call.layer,
                    .site = call.site,
                    .controlled = call.inner != nullptr,
                    .x = to_host(call.state.value),
                    .sum = to_host(call.sum.value)};
    Var out = call.apply();
    made.out = to_host(out.value);
    if (with_parts && made.controlled) {
      made.own = to_host(subject.own(passage, call, call.state.value));
      if (subject.moc() != nullptr)
        made.routed = to_host(subject.routed(passage, call, call.state.value));
    }
    records.push_back(std::move(made));
    return out;
  });
  return records;
}

std::vector<std::vector<float>> answers_to(Subject& other, const data::MicroBatch& batch,
                                           const std::vector<SiteRecord>& records) {
  Passage passage = other.begin(batch);
  const Shape shape{passage.tokens(), other.model().hidden};
  const auto states = [&](const std::vector<float>& values) {
    return Var(Tensor::from_host(other.device(), shape, values));
  };
  std::vector<std::vector<float>> answers;
  other.run(passage, nullptr, states(records.front().x), [&](const SiteCall& call) {
    answers.push_back(to_host(call.apply().value));
    const std::size_t next = call.index() + 1;
    return next < records.size() ? states(records[next].x) : call.sum;
  });
  return answers;
}

double squares(const float* a, const float* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double difference =
        static_cast<double>(a[i]) - (b != nullptr ? static_cast<double>(b[i]) : 0.0);
    sum += difference * difference;
  }
  return sum;
}

}  // namespace fathom::diagnose::moc
