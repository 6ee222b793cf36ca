#pragma once

#include "autograd/tape.h"
#include "methods/mta/level_spans.h"
#include "methods/mta/options.h"

// Multi-granular trajectory alignment (MTA) of one pair of key layers: the student's states are
// drawn to the teacher's where the text has its words or phrases. Notation: h^S [n, d_S] and h^T
// [n, d_T] are states of the same packed rows; w^S, w^T token weights (span_weights).
//
//   span          U_i = sum over t in i of w_t h_t / sum over t in i of w_t, by each model's own w
//   structural    DSA = sum over i != j of w_ij (cos(U^S_i, U^S_j) - cos(U^T_i, U^T_j))^2 / sum of
//                 w_ij, with w_ij = W_i W_j and W_i the sum of w^T in span i
//   hidden        Hid = sum over (t in i, i) of w^T_t (1 - cos(P h^S_t + b, h^T_t))
//
// each of one sample. A row of two spans counts twice in Hid. Weights are constants: no gradient
// flows through them.

namespace fathom::methods::mta {

/// Token weights of one model's states, and what they add up to in each span.
struct SpanWeights {
  Tensor rows;  ///< [n]; sum 1 over the (row, span) incidences of a sample
  Tensor mass;  ///< [spans]
};

/// Token importance (kernels/token_importance.h) normalised in each sample, for the samples with at
/// least `least` spans; zero in the others.
SpanWeights span_weights(const LevelSpans& spans, const Tensor& states, std::int64_t least = 1);

/// P and b of the hidden alignment, trained with the student and left out of its export.
struct Projector {
  autograd::Var weight;  ///< [d_T, d_S]
  autograd::Var bias;    ///< [d_T]
};

struct AlignOptions {
  PairNormalisation normalise = PairNormalisation::sample;
  /// Of the gradient: a term's weight divided by the step's number of contributing samples and by
  /// the number of key layers. A term of weight 0 is left out, and its sum is 0.
  float dsa_weight = 0, hid_weight = 0;
};

/// The terms of spans (dsa) and of rows in spans (hid), whose sums are those of AlignSums;
/// undefined where no sample contributes.
struct AlignResults {
  Tensor dsa, hid;
  std::int64_t dsa_samples = 0, hid_samples = 0;
};

/// Sums over samples. A sample with fewer than two spans adds nothing to dsa, one without spans
/// nothing to hid.
struct AlignSums {
  double dsa = 0, hid = 0;
  std::int64_t dsa_samples = 0, hid_samples = 0;

  AlignSums& operator+=(const AlignSums& other);
};

/// The terms of one micro-batch and one pair of key layers. With a tape, the gradient is computed
/// here: the projector's is added to its slots, and the tape keeps nothing but the student's [n,
/// d_S], which it adds to the student's slot when it is played back. Not collective: tensor ranks
/// that hold the same states compute the same, and neither their sums nor their gradients are to be
/// added up. A sample's result does not depend on what else is in the micro-batch, bit for bit
/// (except under PairNormalisation::batch). The host does not wait.
///
/// Cost for a sample of L tokens, m spans and r rows in spans, in multiply-adds: importance L^2
/// (d_S + d_T); dsa m^2 (2 d_S + d_T); hid r d_S d_T, and 3 r d_S d_T with gradients. Of words, m
/// and r are about L: against the 36 L d_S^2 of a student block's training, hid with d_T = d_S adds
/// a twelfth of one block for each key layer. Workspace, freed on return, is one sample's: L^2 + 2
/// m^2 + m (2 d_S + d_T) or r (d_S + d_T) floats, whichever is largest.
AlignResults align_states(autograd::Tape* tape, const AlignOptions& options,
                          const LevelSpans& spans, const autograd::Var& student,
                          const Tensor& teacher, const Projector& projector);

/// The sum of such a result's values.
double total(const std::vector<float>& values);

/// The same, and waits for the sums.
AlignSums align(autograd::Tape* tape, const AlignOptions& options, const LevelSpans& spans,
                const autograd::Var& student, const Tensor& teacher, const Projector& projector);

}  // namespace fathom::methods::mta
