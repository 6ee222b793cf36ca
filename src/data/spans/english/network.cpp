#include "data/spans/english/network.h"

#include <algorithm>
#include <unordered_map>

namespace fathom::data::spans::english {
namespace {

constexpr std::int64_t kWidth = TokenVectors::kWidth;
constexpr std::int64_t kInputs = ModelFile::kFeatures * kWidth;
// The network was trained with so many zero rows before and after each text. They are not zero for
// long, so they must be computed; since they are as many as there are layers, no text reaches
// across them into the next.
constexpr std::int64_t kPad = 4;

kernels::MaxoutLayer maxout_layer(const MaxoutWeights& weights) {
  const auto& shape = weights.linear.weight.shape;
  const std::uint64_t outputs = shape[0], pieces = shape[1], inputs = shape[2];
  const auto weight = pieces_first(weights.linear.weight, 1, outputs, pieces, inputs);
  const auto bias = pieces_first(weights.linear.bias, 1, outputs, pieces, 1);
  kernels::PackedLinear linear(weight.data(), bias.data(),
                               static_cast<std::int64_t>(outputs * pieces),
                               static_cast<std::int64_t>(inputs));
  return {std::move(linear), weights.gain.values, weights.shift.values};
}

/// Sum of the four rows of a table that a value hashes to.
void sum_rows(const std::vector<float>& table, const std::array<std::uint16_t, 4>& rows,
              float* out) {
  const float* row[4];
  for (std::size_t i = 0; i < rows.size(); ++i) row[i] = table.data() + rows[i] * kWidth;
  for (std::int64_t c = 0; c < kWidth; ++c) out[c] = row[0][c] + row[1][c] + row[2][c] + row[3][c];
}

}  // namespace

std::vector<float> pieces_first(const Weights& weights, std::uint64_t groups, std::uint64_t outputs,
                                std::uint64_t pieces, std::uint64_t inputs) {
  std::vector<float> out(weights.values.size());
  for (std::uint64_t g = 0; g < groups; ++g)
    for (std::uint64_t o = 0; o < outputs; ++o)
      for (std::uint64_t p = 0; p < pieces; ++p)
        std::copy_n(weights.values.begin() + ((g * outputs + o) * pieces + p) * inputs, inputs,
                    out.begin() + ((g * pieces + p) * outputs + o) * inputs);
  return out;
}

kernels::PackedLinear packed(const LinearWeights& weights) {
  return {weights.weight.values.data(), weights.bias.values.data(),
          static_cast<std::int64_t>(weights.weight.shape[0]),
          static_cast<std::int64_t>(weights.weight.shape[1])};
}

Tok2Vec::Tok2Vec(const ModelFile& model, const Lexicon& lexicon) {
  for (std::size_t i = 0; i < tables_.size(); ++i) tables_[i] = model.embed[i].values;
  for (std::size_t flag = 0; flag < flags_.size(); ++flag)
    for (std::uint64_t value = 0; value < 2; ++value) {
      const std::size_t table = Lexeme::kFeatures + flag;
      flags_[flag][value].resize(kWidth);
      sum_rows(model.embed[table].values, lexicon.rows(table, value), flags_[flag][value].data());
    }
  for (const MaxoutWeights& weights : model.maxout) layers_.push_back(maxout_layer(weights));
}

void Tok2Vec::embed(const Word& word, float* features) const {
  for (std::size_t i = 0; i < tables_.size(); ++i, features += kWidth)
    sum_rows(tables_[i], word.lexeme->rows[i], features);
  const std::array<bool, 2> values = {word.space_after, word.lexeme->is_space};
  for (std::size_t flag = 0; flag < flags_.size(); ++flag, features += kWidth)
    std::copy_n(flags_[flag][values[flag]].data(), kWidth, features);
}

// Gives every text of the batch its rows.
void TokenVectors::lay_out(std::span<const std::vector<Word>> texts) {
  first_.clear();
  rows_ = kPad;
  for (const auto& words : texts) {
    first_.push_back(rows_);
    rows_ += static_cast<std::int64_t>(words.size()) + kPad;
  }
  const auto size = static_cast<std::size_t>((rows_ + 2) * kWidth);
  values_.assign(size, 0.0f);
  next_.assign(size, 0.0f);
}

// Fills the rows of tokens with their embeddings, mixed. That depends on the form and on whether a
// space follows, so the many tokens of a batch that share both are computed once.
void Tok2Vec::mix(std::span<const std::vector<Word>> texts, TokenVectors& out) const {
  constexpr std::int64_t kUnseen = -1;
  std::unordered_map<const Lexeme*, std::array<std::int64_t, 2>> seen;
  std::vector<const Word*> distinct;
  std::vector<std::int64_t> number;  // in `distinct`, of every token of the batch
  for (const auto& words : texts)
    for (const Word& word : words) {
      auto& known = seen.try_emplace(word.lexeme, std::array{kUnseen, kUnseen})
                        .first->second[word.space_after];
      if (known == kUnseen) {
        known = static_cast<std::int64_t>(distinct.size());
        distinct.push_back(&word);
      }
      number.push_back(known);
    }
  std::vector<float> features(distinct.size() * kInputs), mixed(distinct.size() * kWidth);
  for (std::size_t i = 0; i < distinct.size(); ++i)
    embed(*distinct[i], features.data() + i * kInputs);
  layers_.front().apply(features.data(), kInputs, static_cast<std::int64_t>(distinct.size()),
                        nullptr, mixed.data());
  auto next = number.begin();
  for (std::size_t i = 0; i < texts.size(); ++i)
    for (std::size_t t = 0; t < texts[i].size(); ++t)
      std::copy_n(mixed.data() + *next++ * kWidth, kWidth,
                  out.mutable_row(out.first_row(i) + static_cast<std::int64_t>(t)));
}

void Tok2Vec::run(std::span<const std::vector<Word>> texts, TokenVectors& out) const {
  out.lay_out(texts);
  mix(texts, out);
  for (std::size_t layer = 1; layer < layers_.size(); ++layer) {
    // A row with both its neighbours is a stretch of memory three rows long.
    layers_[layer].apply(out.values_.data(), kWidth, out.rows_, out.values_.data() + kWidth,
                         out.next_.data() + kWidth);
    out.values_.swap(out.next_);
  }
}

Tagger::Tagger(const ModelFile& model) : scores_(packed(model.tagger)) {}

std::vector<std::uint8_t> Tagger::run(const TokenVectors& vectors, std::size_t text,
                                      std::size_t tokens) const {
  const std::int64_t tags = scores_.outputs();
  std::vector<float> scores(tokens * static_cast<std::size_t>(tags));
  scores_.apply(vectors.row(vectors.first_row(text)), kWidth, static_cast<std::int64_t>(tokens),
                scores.data(), tags);
  std::vector<std::uint8_t> best(tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    const float* row = scores.data() + i * static_cast<std::size_t>(tags);
    best[i] = static_cast<std::uint8_t>(std::max_element(row, row + tags) - row);
  }
  return best;
}

}  // namespace fathom::data::spans::english
