// Who owns a gradient, and what a tape keeps.

#include <gtest/gtest.h>

#include "autograd/operations.h"
#include "gradient_check.h"

namespace fathom::test {
namespace {

using autograd::GradSlot;
using autograd::Tape;
using autograd::Var;
using autograd::WeightLayout;
using Floats = std::vector<float>;

class GradSlots : public testing::Test {
 protected:
  Tensor of(const Floats& values) {
    return Tensor::from_host(*device_, {static_cast<std::int64_t>(values.size())}, values);
  }
  std::unique_ptr<Device> device_ = make_test_device();
};

TEST_F(GradSlots, AFirstGradientIsKeptWithoutACopy) {
  GradSlot slot;
  const Tensor gradient = of({1, 2});
  slot.add(gradient);
  EXPECT_EQ(slot.grad().storage_id(), gradient.storage_id());
}

TEST_F(GradSlots, OneTensorInTwoSlotsStaysApart) {
  GradSlot a, b;
  {
    const Tensor shared = of({1, 2});
    a.add(shared);
    b.add(shared);
  }
  a.add(of({10, 20}));
  EXPECT_EQ(to_host(b.grad()), (Floats{1, 2}));
  b.add(of({100, 200}));
  EXPECT_EQ(to_host(a.grad()), (Floats{11, 22}));
  EXPECT_EQ(to_host(b.grad()), (Floats{101, 202}));
}

TEST_F(GradSlots, OneTensorTwiceInOneSlotDoubles) {
  GradSlot slot;
  const Tensor shared = of({1, 2});
  slot.add(shared);
  slot.add(shared);
  EXPECT_EQ(to_host(slot.grad()), (Floats{2, 4}));
  EXPECT_EQ(to_host(shared), (Floats{1, 2}));
}

TEST_F(GradSlots, AnOwnGradientIsAddedToInPlace) {
  GradSlot slot;
  slot.add(of({1, 2}));
  const void* memory = slot.grad().storage_id();
  slot.add(of({3, 4}));
  EXPECT_EQ(slot.grad().storage_id(), memory);
  EXPECT_EQ(to_host(slot.grad()), (Floats{4, 6}));
}

TEST_F(GradSlots, ATargetOfASharedGradientIsACopy) {
  GradSlot slot;
  const Tensor shared = of({1, 2});
  slot.add(shared);
  const GradSlot::Target target = slot.target(*device_, {2});
  EXPECT_TRUE(target.accumulate);
  copy_from_host(target.tensor, Floats{5, 6});
  EXPECT_EQ(to_host(shared), (Floats{1, 2}));
  EXPECT_EQ(to_host(slot.grad()), (Floats{5, 6}));
}

TEST_F(GradSlots, TargetsOfAnEmptySlot) {
  GradSlot written, summed;
  EXPECT_FALSE(written.target(*device_, {2}).accumulate);
  EXPECT_EQ(to_host(summed.sum_target(*device_, {2})), (Floats{0, 0}));
}

TEST_F(GradSlots, AParameterKeepsItsBuffer) {
  const Tensor buffer = of({1, 2});
  GradSlot slot(buffer);
  slot.add(of({10, 20}));
  EXPECT_EQ(to_host(buffer), (Floats{11, 22}));
  EXPECT_TRUE(slot.target(*device_, {2}).accumulate);
  EXPECT_THROW(slot.take(), Error);
}

TEST_F(GradSlots, TakingLeavesTheSlotEmpty) {
  GradSlot slot;
  slot.add(of({1, 2}));
  EXPECT_EQ(to_host(slot.take()), (Floats{1, 2}));
  EXPECT_FALSE(slot.take().defined());
}

TEST_F(GradSlots, AGradientOfAnotherSizeIsRefused) {
  GradSlot slot;
  slot.add(of({1, 2}));
  EXPECT_THROW(slot.target(*device_, {3}), Error);
}

// A small feed-forward block with a residual, whose input reaches the output on three ways.
struct Network {
  explicit Network(Device& device, bool trained) {
    const auto weight = [&](Shape shape, std::uint32_t seed) {
      Var var(Tensor::from_host(device, shape, narrow(sixty_fourths(shape.elements(), seed))));
      if (trained) var.slot = std::make_shared<GradSlot>(Tensor::zeros(device, shape));
      return var;
    };
    norm = weight({8}, 1);
    wide = weight({12, 8}, 2);
    back = weight({8, 12}, 3);
  }

  Var operator()(Tape* tape, const Var& x) const {
    const Var in = autograd::norm(tape, kernels::NormKind::rms, 1e-5f, x, norm, {});
    const Var hidden = autograd::activation(tape, kernels::Activation::silu,
                                            autograd::linear(tape, in, wide, WeightLayout::out_in));
    const Var out = autograd::linear(tape, hidden, back, WeightLayout::out_in);
    return autograd::add(tape, autograd::residual(tape, x, out, {}, {}), x);
  }

  Var norm, wide, back;
};

// All gradients of two such blocks, one behind the other.
struct Outcome {
  std::vector<Floats> gradients;
  std::size_t saved = 0;  // by the tape's accounts
  std::size_t taken = 0;  // by the arena's, result included
};

enum class Mode { kept, remade, replayed };

Outcome run(Device& device, Mode mode) {
  const Network first(device, true), second(device, true);
  const Var x(Tensor::from_host(device, {5, 8}, narrow(sixty_fourths(40, 4))),
              std::make_shared<GradSlot>());
  Tape tape;
  tape.set_remakes(mode == Mode::remade);
  const auto call = [&](const Network& f, const Var& in) {
    return mode == Mode::replayed ? autograd::recompute(&tape, in, f) : f(&tape, in);
  };
  Outcome outcome;
  const std::size_t before = device.memory().in_use;
  const Var y = call(second, call(first, x));
  outcome.taken = device.memory().in_use - before;
  for (const auto& [name, bytes] : tape.saved_bytes()) outcome.saved += bytes;
  y.slot->add(Tensor::from_host(device, {5, 8}, narrow(sixty_fourths(40, 5))));
  tape.backward();
  EXPECT_TRUE(tape.empty());
  outcome.gradients.push_back(to_host(x.slot->grad()));
  for (const Network* network : {&first, &second})
    for (const Var* weight : {&network->norm, &network->wide, &network->back})
      outcome.gradients.push_back(to_host(weight->slot->grad()));
  return outcome;
}

TEST(Recompute, GivesTheSameGradientsFromFewerBytes) {
  const auto device = make_test_device();
  const Outcome kept = run(*device, Mode::kept), replayed = run(*device, Mode::replayed);
  EXPECT_EQ(kept.gradients, replayed.gradients);
  EXPECT_EQ(replayed.saved, 2 * 5 * 8 * sizeof(float));  // the two inputs and nothing else
  EXPECT_LT(replayed.saved, kept.saved);
  EXPECT_LT(replayed.taken, kept.taken);
}

TEST(Remake, GivesTheSameGradientsFromFewerBytes) {
  const auto device = make_test_device();
  const Outcome kept = run(*device, Mode::kept), remade = run(*device, Mode::remade);
  EXPECT_EQ(kept.gradients, remade.gradients);
  // In each of two blocks: the norm's result [5, 8] and the activation's [5, 12].
  EXPECT_EQ(kept.saved - remade.saved, 2 * (5 * 8 + 5 * 12) * sizeof(float));
  EXPECT_LT(remade.taken, kept.taken);
}

TEST(Recompute, WithoutATapeIsACall) {
  const auto device = make_test_device();
  const Network network(*device, true);
  const Var x(Tensor::from_host(*device, {5, 8}, narrow(sixty_fourths(40, 4))));
  const Var y = autograd::recompute(nullptr, x, network);
  EXPECT_FALSE(y.needs_grad());
  EXPECT_EQ(to_host(y.value), to_host(network(nullptr, x).value));
}

TEST(Recompute, OfFrozenThingsReachesNothing) {
  const auto device = make_test_device();
  const Network network(*device, false);
  Tape tape;
  const Var y = autograd::recompute(
      &tape, Var(Tensor::from_host(*device, {5, 8}, narrow(sixty_fourths(40, 4)))), network);
  if (y.needs_grad()) y.slot->add(Tensor::zeros(*device, {5, 8}));
  EXPECT_NO_THROW(tape.backward());
}

TEST(Tape, BackwardReleasesWhatItKept) {
  const auto device = make_test_device();
  const Network network(*device, true);
  const std::size_t before = device->memory().in_use;
  {
    Tape tape;
    Var y = network(&tape, Var(Tensor::zeros(*device, {5, 8})));
    y.slot->add(Tensor::zeros(*device, {5, 8}));
    tape.backward();
    y = Var();
    EXPECT_EQ(device->memory().in_use, before);
  }
}

TEST(Tape, ATensorThatSeveralStepsKeepCountsOnce) {
  const auto device = make_test_device();
  const Var w(Tensor::zeros(*device, {3, 4}),
              std::make_shared<GradSlot>(Tensor::zeros(*device, {3, 4})));
  const Var x(Tensor::zeros(*device, {2, 4}));
  Tape tape;
  autograd::linear(&tape, x, w, WeightLayout::out_in);
  autograd::linear(&tape, x, w, WeightLayout::out_in);
  EXPECT_EQ(tape.saved_bytes().at("linear"), 2 * 4 * sizeof(float));
}

TEST(Tape, HooksRunWhenLaterStepsHave) {
  Tape tape;
  std::string order;
  tape.record("step", {}, [&] { order += 'a'; });
  tape.on_backward([&] { order += 'h'; });
  tape.record("step", {}, [&] { order += 'b'; });
  tape.record("step", {}, [&] { order += 'c'; });
  tape.backward();
  EXPECT_EQ(order, "cbha");
}

// A result that nobody used gets no gradient, and its inputs none through it.
TEST(Tape, AnUnusedBranchAddsNothing) {
  const auto device = make_test_device();
  const Network network(*device, true);
  const Var x(Tensor::from_host(*device, {5, 8}, narrow(sixty_fourths(40, 4))),
              std::make_shared<GradSlot>());
  Tape tape;
  network(&tape, x);
  const Var y = autograd::add(&tape, x, x);
  y.slot->add(Tensor::from_host(*device, {5, 8}, Floats(40, 1.0f)));
  tape.backward();
  EXPECT_EQ(to_host(x.slot->grad()), Floats(40, 2.0f));
  EXPECT_EQ(to_host(network.wide.slot->grad()), Floats(96, 0.0f));
}

}  // namespace
}  // namespace fathom::test
