// What happens while a gradient is summed over a group whose devices do that beside their kernels.

#include "comm/differentiable.h"

#include <gtest/gtest.h>

#include "autograd/operations.h"

namespace fathom::comm {
namespace {

using autograd::GradSlot;
using autograd::Tape;
using autograd::Var;
using Floats = std::vector<float>;

/// Two ranks that hold the same: a sum is twice of what is here, and is there once it is waited
/// for. Tells when a sum starts and when it is waited for.
class Doubling final : public Communicator {
 public:
  Doubling(bool beside, std::function<void(const char*)> tell)
      : beside_(beside), tell_(std::move(tell)) {}

  int rank() const override { return 0; }
  int size() const override { return 2; }
  bool reduces_beside_kernels() const override { return beside_; }
  void all_reduce(float* data, std::size_t n, ReduceOp) override {
    tell_("sum");
    for (std::size_t i = 0; i < n; ++i) data[i] *= 2;
  }
  Request start_all_reduce(float* data, std::size_t n, ReduceOp) override {
    tell_("start");
    return Request(std::make_unique<Sum>(*this, data, n));
  }

  void barrier() override { none(); }
  void all_reduce(double*, std::size_t, ReduceOp) override { none(); }
  void all_reduce(std::int64_t*, std::size_t, ReduceOp) override { none(); }
  void broadcast(void*, std::size_t, int) override { none(); }
  void all_gather(const void*, std::size_t, void*) override { none(); }
  void reduce_scatter(const float*, float*, std::size_t) override { none(); }
  Request start_send(const void*, std::size_t, int, int) override { none(); }
  Request start_recv(void*, std::size_t, int, int) override { none(); }
  std::unique_ptr<Communicator> split(int, int) override { none(); }

 private:
  struct Sum final : Request::State {
    Sum(Doubling& of_group, float* of, std::size_t count) : group(of_group), data(of), n(count) {}
    void wait() override {
      group.tell_("wait");
      for (std::size_t i = 0; i < n; ++i) data[i] *= 2;
    }
    bool test() override { return false; }
    void abandon() noexcept override {}
    Doubling& group;
    float* data;
    std::size_t n;
  };
  [[noreturn]] static void none() { fail(ErrorKind::internal, "not a call of this test"); }

  bool beside_;
  std::function<void(const char*)> tell_;
};

/// A layer behind copy_to_group: its gradients, and what the weight's was at each call of the
/// group.
struct Gradients {
  Floats dx, dw, db;
  std::vector<std::pair<std::string, float>> calls;
};

Gradients run(bool beside) {
  const auto device = make_cpu_device(std::size_t{1} << 20);
  const auto trained = [&](Shape shape, const Floats& values) {
    return Var(Tensor::from_host(*device, shape, values),
               std::make_shared<GradSlot>(Tensor::zeros(*device, shape)));
  };
  const Var x(Tensor::from_host(*device, {2, 2}, Floats{1, 2, 3, 4}), std::make_shared<GradSlot>());
  const Var w = trained({1, 2}, {5, 6}), b = trained({1}, {0});
  Gradients result;
  Doubling group(beside, [&](const char* call) {
    result.calls.emplace_back(call, to_host(w.slot->grad())[0]);
  });
  Tape tape;
  const Var y = autograd::linear(&tape, copy_to_group(&tape, &group, x), w,
                                 autograd::WeightLayout::out_in, b);
  y.slot->add(Tensor::from_host(*device, {2, 1}, Floats{1, 10}));
  tape.backward();
  result.dx = to_host(x.slot->grad());
  result.dw = to_host(w.slot->grad());
  result.db = to_host(b.slot->grad());
  return result;
}

using Calls = std::vector<std::pair<std::string, float>>;

TEST(CopyToGroup, GradientsOfParametersAreMadeWhileTheInputsIsSummed) {
  const Gradients one = run(true);
  // dw[0] = 1 * 1 + 10 * 3.
  EXPECT_EQ(one.calls, (Calls{{"start", 0.0f}, {"wait", 31.0f}}));
  EXPECT_EQ(one.dx, (Floats{10, 12, 100, 120}));
  EXPECT_EQ(one.dw, (Floats{31, 42}));
  EXPECT_EQ(one.db, (Floats{11}));
}

TEST(CopyToGroup, OrBeforeWhereNothingIsGainedByIt) {
  const Gradients one = run(false), other = run(true);
  EXPECT_EQ(one.calls, (Calls{{"sum", 31.0f}}));
  EXPECT_EQ(one.dx, other.dx);
  EXPECT_EQ(one.dw, other.dw);
  EXPECT_EQ(one.db, other.db);
}

}  // namespace
}  // namespace fathom::comm
