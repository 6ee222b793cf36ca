#include "generate/stage_link.h"

namespace fathom::generate {

StageLink::StageLink(comm::Communicator& pp, int groups)
    : pp_(pp), groups_(static_cast<std::size_t>(groups)) {}

Tensor StageLink::receive_hidden(int group, Device& device, std::int64_t rows,
                                 std::int64_t hidden) {
  Tensor x = Tensor::empty(device, {rows, hidden});
  KernelScope scope(device);
  pp_.start_recv(x.ptr<float>(), x.bytes(), pp_.rank() - 1, hidden_tag(group)).wait();
  return x;
}

void StageLink::send_hidden(int group, const Tensor& hidden) {
  Group& g = at(group);
  g.hidden_sent.wait();
  g.hidden = hidden;
  g.scope = std::make_unique<KernelScope>(hidden.device());
  g.hidden_sent =
      pp_.start_send(hidden.ptr<float>(), hidden.bytes(), pp_.rank() + 1, hidden_tag(group));
}

std::vector<float> StageLink::receive_weights(int group, std::size_t count) {
  std::vector<float> weights(count);
  pp_.start_recv(weights.data(), count * sizeof(float), pp_.rank() - 1, weights_tag(group)).wait();
  return weights;
}

void StageLink::send_weights(int group, std::vector<float> weights) {
  Group& g = at(group);
  g.weights_sent.wait();
  g.weights = std::move(weights);
  g.weights_sent = pp_.start_send(g.weights.data(), g.weights.size() * sizeof(float),
                                  pp_.rank() + 1, weights_tag(group));
}

void StageLink::send_choices(int group, std::vector<Choice> choices) {
  Group& g = at(group);
  for (comm::Request& request : g.choices_sent) request.wait();
  g.choices_sent.clear();
  g.choices = std::move(choices);
  for (int stage = 0; stage < pp_.rank(); ++stage)
    g.choices_sent.push_back(pp_.start_send(g.choices.data(), g.choices.size() * sizeof(Choice),
                                            stage, choices_tag(group)));
}

std::vector<Choice> StageLink::take_choices(int group, std::size_t count) {
  if (is_last()) return at(group).choices;
  std::vector<Choice> choices(count);
  pp_.start_recv(choices.data(), count * sizeof(Choice), pp_.size() - 1, choices_tag(group)).wait();
  // The tokens are back, so the hidden states that they come from have been received.
  Group& g = at(group);
  g.hidden_sent.wait();
  g.scope.reset();
  g.hidden = Tensor();
  return choices;
}

}  // namespace fathom::generate
