#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/spans/english/lexicon.h"
#include "data/spans/english/model_file.h"
#include "data/spans/english/text_tokenizer.h"
#include "kernels/packed_linear.h"

namespace fathom::data::spans::english {

/// The vectors of a batch of texts: one row for each token, texts one after another with padding
/// between them.
class TokenVectors {
 public:
  static constexpr std::int64_t kWidth = 96;

  /// Row of the first token of text i.
  std::int64_t first_row(std::size_t text) const { return first_[text]; }
  std::int64_t rows() const { return rows_; }
  const float* data() const { return values_.data() + kWidth; }
  const float* row(std::int64_t row) const { return data() + row * kWidth; }

 private:
  friend class Tok2Vec;
  void lay_out(std::span<const std::vector<Word>> texts);
  float* mutable_row(std::int64_t row) { return values_.data() + (row + 1) * kWidth; }

  std::vector<std::int64_t> first_;
  std::int64_t rows_ = 0;
  // One row more at both ends, so that every row of the batch has two neighbours.
  std::vector<float> values_, next_;
};

/// spaCy's Tok2Vec: hashed embeddings of six features, mixed by a maxout layer, then four residual
/// maxout layers over each token and its two neighbours. A text's vectors do not depend on the
/// texts it shares a batch with, to the bit. Immutable.
class Tok2Vec {
 public:
  Tok2Vec(const ModelFile& model, const Lexicon& lexicon);

  /// Fills `out`, whose buffers are used again.
  void run(std::span<const std::vector<Word>> texts, TokenVectors& out) const;

 private:
  void embed(const Word& word, float* features) const;
  void mix(std::span<const std::vector<Word>> texts, TokenVectors& out) const;

  std::array<std::vector<float>, Lexeme::kFeatures> tables_;
  /// Embeddings of the two values of SPACY and of IS_SPACE, already summed.
  std::array<std::array<std::vector<float>, 2>, 2> flags_;
  std::vector<kernels::MaxoutLayer> layers_;
};

/// Index of the best tag for each token of a text: the first of the highest W x + b.
class Tagger {
 public:
  explicit Tagger(const ModelFile& model);

  std::vector<std::uint8_t> run(const TokenVectors& vectors, std::size_t text,
                                std::size_t tokens) const;

 private:
  kernels::PackedLinear scores_;
};

/// [outputs, pieces, inputs] to [pieces, outputs, inputs]: the maximum over pieces is then taken
/// between whole rows. Also for biases, with one input.
std::vector<float> pieces_first(const Weights& weights, std::uint64_t groups, std::uint64_t outputs,
                                std::uint64_t pieces, std::uint64_t inputs);

kernels::PackedLinear packed(const LinearWeights& weights);

}  // namespace fathom::data::spans::english
