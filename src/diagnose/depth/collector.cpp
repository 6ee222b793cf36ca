#include "diagnose/depth/collector.h"

#include <algorithm>
#include <cmath>

#include "generate/token_chooser.h"
#include "kernels/gemm.h"
#include "kernels/mixture.h"
#include "model/head.h"

namespace fathom::diagnose::depth {
namespace {

// Rows of logits at a time: three matrices of [rows, vocabulary] exist at once.
constexpr std::int64_t kChunkRows = 128;

bool right(const std::vector<float>& results, std::size_t row) {
  return results[row * kernels::kLossResults + kernels::kCorrect] > 0.5f;
}

}  // namespace

DepthCollector::DepthCollector(const model::Stage& last, std::int64_t first_layer, std::size_t k)
    : last_(last), sums_(first_layer, k) {}

void DepthCollector::add(const data::MicroBatch& batch, const methods::mode::Votes& votes,
                         const Tensor& labels) {
  const std::int64_t m = labels.elements();
  FATHOM_CHECK(votes.experts.size() == sums_.k(), votes.experts.size(), " votes of ", sums_.k());
  std::vector<std::vector<char>> correct(sums_.k() + 1);  // by layer, then the mixture; [m]
  const std::int64_t chunk = model::even_chunk(m, kChunkRows);
  for (std::int64_t begin = 0; begin < m; begin += chunk) {
    const std::int64_t rows = std::min(chunk, m - begin);
    count(look(votes, labels, begin, rows), static_cast<std::size_t>(rows), correct);
  }
  count_weights(to_host(votes.weights.value));
  count_examples(batch, correct);
}

Tensor DepthCollector::multiply(const Tensor& states, const Tensor& buffer) const {
  kernels::gemm(states, kernels::Trans::no, last_.head().value, kernels::Trans::yes, buffer);
  return buffer;
}

// The id that the head puts first for each row, as labels.
Tensor DepthCollector::first_choices(const Tensor& states) const {
  const std::vector<generate::SequenceView> rows(static_cast<std::size_t>(states.rows()));
  std::vector<std::int32_t> ids;
  for (const generate::Choice& choice : generate::TokenChooser(last_, {}).choose(states, rows))
    ids.push_back(choice.id);
  return Tensor::from_host(states.device(), {states.rows()}, std::span<const std::int32_t>(ids));
}

DepthCollector::Seen DepthCollector::look(const methods::mode::Votes& votes, const Tensor& labels,
                                          std::int64_t begin, std::int64_t rows) const {
  Device& device = labels.device();
  const Shape shape{rows, last_.head().value.rows()};
  const auto states = [&](std::size_t j) { return votes.experts[j].value.slice_rows(begin, rows); };
  const Tensor last = multiply(states(sums_.k() - 1), Tensor::empty(device, shape));
  const Tensor logits = Tensor::empty(device, shape), mixture = Tensor::empty(device, shape);
  const Tensor guesses = first_choices(states(sums_.k() - 1));
  const Tensor weights = votes.weights.value.slice_rows(begin, rows);
  const Tensor results = Tensor::empty(device, {rows, kernels::kLossResults});
  const model::ChunkLoss loss(device, last_.tp(), rows);
  Seen seen;
  const auto score = [&](const Tensor& student) {
    kernels::LogitChunk chunk;
    chunk.student = student;
    chunk.teacher = last;
    chunk.first_id = last_.plan().shard.first_vocab;
    for (const bool of_labels : {true, false}) {
      chunk.labels = of_labels ? labels.slice_rows(begin, rows) : guesses;
      loss.run({.ce_weight = 1, .kd_weight = 1}, chunk, results, false);
      (of_labels ? seen.results : seen.guesses).push_back(to_host(results));
    }
  };
  for (std::size_t j = 0; j < sums_.k(); ++j) {
    const Tensor own = j + 1 < sums_.k() ? multiply(states(j), logits) : last;
    kernels::weigh_rows(own, weights, static_cast<std::int64_t>(j), mixture, j > 0);
    score(own);
  }
  score(mixture);
  return seen;
}

void DepthCollector::count(const Seen& seen, std::size_t rows,
                           std::vector<std::vector<char>>& correct) {
  const std::size_t k = sums_.k();
  for (std::size_t j = 0; j <= k; ++j) {
    LayerSums& sums = j < k ? sums_.layers[j] : sums_.mixture;
    for (std::size_t r = 0; r < rows; ++r) {
      sums.loss += seen.results[j][r * kernels::kLossResults + kernels::kCrossEntropy];
      sums.divergence += seen.results[j][r * kernels::kLossResults + kernels::kDivergence];
      sums.correct += right(seen.results[j], r);
      sums.agrees += right(seen.guesses[j], r);
      correct[j].push_back(right(seen.results[j], r));
    }
  }
  sums_.tokens += static_cast<double>(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    bool later = false;
    for (std::size_t j = k; j-- > 0;) {
      if (!right(seen.results[j], r)) continue;
      sums_.layers[j].adds += !later;
      later = true;
      for (std::size_t i = 0; i < k; ++i)
        sums_.both_correct[j * k + i] += right(seen.results[i], r);
    }
  }
}

void DepthCollector::count_weights(const std::vector<float>& weights) {
  const std::size_t k = sums_.k();
  for (std::size_t at = 0; at < weights.size(); at += k) {
    const auto row = weights.begin() + static_cast<std::ptrdiff_t>(at);
    const auto largest = std::max_element(row, row + static_cast<std::ptrdiff_t>(k)) - row;
    sums_.layers[static_cast<std::size_t>(largest)].largest += 1;
    for (std::size_t j = 0; j < k; ++j) {
      const double g = weights[at + j];
      sums_.layers[j].weight += g;
      if (g > 0) sums_.entropy -= g * std::log(g);
    }
  }
}

void DepthCollector::count_examples(const data::MicroBatch& batch,
                                    const std::vector<std::vector<char>>& correct) {
  const std::size_t k = sums_.k();
  std::size_t row = 0;  // of the supervised ones
  for (std::size_t s = 1; s < batch.cu_seqlens.size(); ++s) {
    const std::size_t first = row;
    for (auto t = batch.cu_seqlens[s - 1]; t < batch.cu_seqlens[s]; ++t)
      row += batch.labels[static_cast<std::size_t>(t)] != data::kNoLabel;
    if (row == first) continue;
    sums_.examples += 1;
    ExampleSolved example{.record = batch.record_index[s - 1], .by = {}};
    for (const auto& layer : correct)
      example.by += std::all_of(layer.begin() + static_cast<std::ptrdiff_t>(first),
                                layer.begin() + static_cast<std::ptrdiff_t>(row),
                                [](char c) { return c != 0; })
                        ? '1'
                        : '0';
    const auto solved = [&](std::size_t layer) { return example.by[layer] == '1'; };
    sums_.mixture.solved += solved(k);
    for (std::size_t j = 0; j < k; ++j) {
      sums_.layers[j].solved += solved(j);
      for (std::size_t i = 0; i < k; ++i) sums_.both_solved[j * k + i] += solved(j) && solved(i);
    }
    sums_.solved.push_back(std::move(example));
  }
  FATHOM_CHECK(row == correct.front().size(), row, " supervised rows, and ", correct.front().size(),
               " votes");
}

}  // namespace fathom::diagnose::depth
