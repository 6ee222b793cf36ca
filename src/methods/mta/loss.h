#pragma once

#include <functional>

#include "comm/communicator.h"
#include "data/spans/token_spans.h"
#include "methods/key_layers.h"
#include "methods/mta/align.h"
#include "methods/mta/granularity.h"
#include "methods/state_loss.h"

namespace fathom::methods::mta {

/// What a run aligns, settled before it starts.
struct Settings {
  std::vector<KeyLayer> layers;
  std::vector<Level> levels;  ///< of each key layer
  PairNormalisation normalise = PairNormalisation::sample;
  SpanRegion region = SpanRegion::all;
  double dsa_weight = 0, hid_weight = 0;
  std::int64_t student_width = 0, teacher_width = 0;
  double lr_scale = 1;  ///< of the projectors' learning rate
};

/// The words and phrases of every sequence of a step's micro-batches on this rank,
/// [slot][sequence]. Called once for each step.
using SpansOf = std::function<std::vector<std::vector<data::spans::TokenSpans>>(
    const std::vector<data::MicroBatch>& batches)>;

/// Multi-granular trajectory alignment as a loss on hidden states: each pair of key layers is a
/// site with a projector of its own,
///
///   L = sum over key layers of (dsa_weight DSA + hid_weight Hid) / number of key layers,
///
/// DSA and Hid being means over the step's samples that contribute to them (align.h). A sample
/// without spans at a level adds exactly nothing and is no part of that level's mean. Text of the
/// second corpus is left out.
class MtaLoss : public StateLoss {
 public:
  /// `dp` must outlive the loss. `counts_idle` on one rank of each pipeline and tensor group: it
  /// reports the samples that add nothing.
  MtaLoss(Device& device, comm::Communicator& dp, Settings settings, SpansOf spans_of,
          bool counts_idle);

  std::vector<Site> sites() const override;
  void declare(const std::vector<std::size_t>& sites, bool owned,
               model::ParameterSet& parameters) override;
  void begin(const std::vector<data::MicroBatch>& batches) override;
  void apply(autograd::Tape* tape, int slot, std::size_t site, const KeyStates& states,
             model::Readback& later) override;
  std::vector<StateTerm> terms() const override;

 private:
  // Contributing samples of one level over the whole step.
  struct Samples {
    std::int64_t dsa = 0, hid = 0;
  };
  struct Spans {
    std::optional<LevelSpans> words, phrases;
  };
  // Whether a sample with so many words and phrases adds to a term at any key layer.
  bool contributes(std::size_t words, std::size_t phrases) const;
  Spans take_spans(const data::MicroBatch& batch,
                   const std::vector<data::spans::TokenSpans>& found);
  std::vector<RowSpan> rows_of(const std::vector<data::spans::Span>& spans, std::int32_t first_row,
                               std::int32_t prompt_length) const;
  const Samples& samples(std::size_t site) const {
    return settings_.levels[site] == Level::words ? words_ : phrases_;
  }

  Device& device_;
  comm::Communicator& dp_;
  Settings settings_;
  SpansOf spans_of_;
  bool counts_idle_;
  std::vector<Projector> projectors_;
  std::vector<Spans> spans_;  // by slot
  Samples words_, phrases_;
  std::int64_t idle_ = 0;  // samples of this replica that add nothing at any key layer
  std::vector<AlignSums> sums_;
};

}  // namespace fathom::methods::mta
