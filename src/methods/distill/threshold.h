#pragma once

#include <cstdint>
#include <optional>

/// When a student is trained on what it says itself: the adaptive scheme of DistiLLM (arXiv
/// 2402.03898, section 3.2). Pure functions and plain state: every rank holds the same.
namespace fathom::methods::distill {

/// Where a micro-batch's text comes from.
enum class Origin {
  dataset,   ///< the training set
  generate,  ///< what the student answers to the training set's prompts now
  replay,    ///< what it answered before
};

/// How the share of text that is generated anew, among all of the student's, changes over a run.
enum class ReplaySchedule { decreasing, constant, increasing };

/// The threshold phi: the probability that a micro-batch is the student's own text. It rises when
/// the student does worse on held-out data than when it last rose, and never falls.
class Threshold {
 public:
  struct Options {
    double initial = 0;
    double rise = 0.1;
    double tolerance = 0.1;  ///< nats by which the loss must grow
  };
  struct State {
    double value = 0;
    std::optional<double> reference =
        {};  ///< held-out loss to compare with; none before the first one
  };

  explicit Threshold(const Options& options) : options_(options), state_{options.initial, {}} {}

  /// Takes in a held-out loss. The first one, before training, becomes the reference; later ones
  /// only where phi rises.
  void evaluated(double loss);

  double value() const { return state_.value; }
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  Options options_;
  State state_;
};

/// The probability that a micro-batch is generated anew: phi times what the schedule leaves of it
/// after `step` of `steps`.
double fresh_share(ReplaySchedule schedule, double phi, std::int64_t step, std::int64_t steps);

/// Where the text for a draw r of [0, 1) comes from. While the buffer is not full, what would be
/// replayed is generated.
Origin choose_origin(double r, double phi, double fresh, bool buffer_full);

/// The draw of a micro-batch: a function of its arguments alone, so that all ranks agree and a
/// resumed run goes on with the same.
double origin_draw(std::uint64_t seed, std::int64_t step, std::int64_t micro_batch);

}  // namespace fathom::methods::distill
