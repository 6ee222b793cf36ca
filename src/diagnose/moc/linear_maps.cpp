#include "diagnose/moc/linear_maps.h"

#include <cmath>
#include <numbers>

#include "core/philox.h"
#include "diagnose/moc/records.h"
#include "kernels/elementwise.h"

namespace fathom::diagnose::moc {
namespace {

using autograd::GradSlot;
using autograd::Tape;
using autograd::Var;

// Of a difference, relative to the state: f32 leaves 1e-4 of it, the third derivative 1e-6.
constexpr double kStep = 1e-3;

Var leaf(const Tensor& value) {
  return Var(value, std::make_shared<GradSlot>());
}

// x + step v.
Tensor moved(const Tensor& x, const States& v, double step) {
  States values = to_host(x);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(values[i] + step * static_cast<double>(v[i]));
  return Tensor::from_host(x.device(), x.shape(), values);
}

double norm_of(const States& v) {
  return std::sqrt(squares(v.data(), nullptr, static_cast<std::int64_t>(v.size())));
}

double step_for(const Tensor& x) {
  return kStep * norm_of(to_host(x));
}

// How often v makes a step of this length; v = 0 makes none.
double per_length(double step, const States& v) {
  const double length = norm_of(v);
  return length > 0 ? step / length : 1;
}

States difference(const States& above, const States& below, double step) {
  States result(above.size());
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<float>((static_cast<double>(above[i]) - below[i]) / (2 * step));
  return result;
}

}  // namespace

SiteJacobians::SiteJacobians(Subject& subject, Passage& passage, Part part)
    : subject_(subject), passage_(passage), part_(part) {
  subject.run(passage, nullptr, Var(subject.embed(passage)), [&](const SiteCall& call) {
    states_.push_back(call.state.value);
    steps_.push_back(step_for(call.state.value));
    return call.apply();
  });
}

Var SiteJacobians::output(const SiteCall& call) const {
  return part_ == Part::site ? subject_.control_held(passage_, call) : call.sum;
}

// The sum has x in it, which f does not.
void SiteJacobians::take_input_off(States& product, const States& v) const {
  if (part_ == Part::site) return;
  for (std::size_t i = 0; i < product.size(); ++i) product[i] -= v[i];
}

std::vector<States> SiteJacobians::transposed(const std::vector<States>& v) {
  Tape tape;
  std::vector<Var> leaves, outputs;
  for (const Tensor& state : states_) leaves.push_back(leaf(state));
  subject_.run(passage_, &tape, leaves.front(), [&](const SiteCall& call) {
    outputs.push_back(output(call));
    return outputs.size() < leaves.size() ? leaves[outputs.size()] : outputs.back();
  });
  for (std::size_t s = 0; s < outputs.size(); ++s)
    outputs[s].slot->add(Tensor::from_host(subject_.device(), states_[s].shape(), v[s]));
  tape.backward();
  std::vector<States> result;
  for (std::size_t s = 0; s < leaves.size(); ++s) {
    result.push_back(to_host(leaves[s].slot->take()));
    take_input_off(result.back(), v[s]);
  }
  return result;
}

std::vector<States> SiteJacobians::outputs_at(const std::vector<States>& v, double side) {
  std::vector<States> outputs;
  const auto state = [&](std::size_t s) {
    return Var(moved(states_[s], v[s], side * per_length(steps_[s], v[s])));
  };
  subject_.run(passage_, nullptr, state(0), [&](const SiteCall& call) {
    const Var out = output(call);
    outputs.push_back(to_host(out.value));
    return outputs.size() < states_.size() ? state(outputs.size()) : out;
  });
  return outputs;
}

std::vector<States> SiteJacobians::forward(const std::vector<States>& v) {
  const std::vector<States> above = outputs_at(v, 1), below = outputs_at(v, -1);
  std::vector<States> result;
  for (std::size_t s = 0; s < v.size(); ++s) {
    result.push_back(difference(above[s], below[s], per_length(steps_[s], v[s])));
    take_input_off(result.back(), v[s]);
  }
  return result;
}

StackJacobian::StackJacobian(Subject& subject, Passage& passage)
    : subject_(subject),
      passage_(passage),
      input_(subject.embed(passage)),
      step_(step_for(input_)),
      squares_(subject.sites(), 0.0) {}

States StackJacobian::transposed(const States& v) {
  Tape tape;
  const Var input = leaf(input_);
  const Var last = subject_.run(passage_, &tape, input, [&](const SiteCall& call) {
    const Var before = subject_.control_held(passage_, call);
    const std::size_t next = call.index() + 1;
    if (next == squares_.size()) return before;
    // What follows has a slot of its own, from which the gradient is handed on.
    const Var after = leaf(before.value);
    tape.record("watch", {}, [this, next, from = after.slot, to = before.slot] {
      Tensor gradient = from->take();
      squares_[next] = kernels::sum_of_squares(gradient);
      to->add(std::move(gradient));
    });
    return after;
  });
  last.slot->add(Tensor::from_host(subject_.device(), input_.shape(), v));
  tape.backward();
  States result = to_host(input.slot->take());
  squares_[0] = moc::squares(result.data(), nullptr, elements());
  return result;
}

States StackJacobian::run_at(const States& v, double side) {
  const Var input(moved(input_, v, side * per_length(step_, v)));
  return to_host(
      subject_
          .run(passage_, nullptr, input,
               [&](const SiteCall& call) { return subject_.control_held(passage_, call); })
          .value);
}

States StackJacobian::forward(const States& v) {
  return difference(run_at(v, 1), run_at(v, -1), per_length(step_, v));
}

double normalise(States& v) {
  const double length = norm_of(v);
  if (length > 0)
    for (float& value : v) value = static_cast<float>(value / length);
  return length;
}

// Box and Muller: one number for each pair of words.
States gaussian(std::int64_t elements, std::uint32_t seed, std::uint32_t index) {
  States result;
  for (std::int64_t i = 0; i < elements; ++i) {
    const Philox words = philox(seed, index, static_cast<std::uint32_t>(i), 0, 0, 0);
    const double radius =
        std::sqrt(-2 * std::log(1.0 - static_cast<double>(uniform01(words.v[0]))));
    const double angle = 2 * std::numbers::pi * static_cast<double>(uniform01(words.v[1]));
    result.push_back(static_cast<float>(radius * std::cos(angle)));
  }
  return result;
}

}  // namespace fathom::diagnose::moc
