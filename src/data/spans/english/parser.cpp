#include "data/spans/english/parser.h"

#include <algorithm>

#include "core/error.h"

namespace fathom::data::spans::english {

Parser::Parser(const ModelFile& model, Labels& labels)
    : lower_(packed(model.parser_lower)), upper_(packed(model.parser_upper)) {
  for (const std::string& name : model.moves) add_move(name, labels);
  constexpr std::uint64_t features = ParseState::kFeatures;
  const auto weight = pieces_first(model.parser_hidden.weight, features, kHidden, kPieces, kHidden);
  features_ = {weight.data(), nullptr, kParts, kHidden};
  pad_ = pieces_first(model.parser_pad, features, kHidden, kPieces, 1);
  bias_ = pieces_first(model.parser_hidden.bias, 1, kHidden, kPieces, 1);
}

void Parser::add_move(const std::string& name, Labels& labels) {
  constexpr std::string_view kLetters = "SDLRB";
  const std::size_t kind = name.empty() ? std::string::npos : kLetters.find(name[0]);
  const bool ordered = kind != std::string::npos &&
                       (moves_.empty() || kind >= static_cast<std::size_t>(moves_.back().kind));
  require(ordered && (name.size() == 1 || name[1] == '-'), ErrorKind::data,
          "the span model's move '", name, "' is unknown or out of order");
  const std::string_view label =
      std::string_view(name).substr(std::min<std::size_t>(2, name.size()));
  Range& range = kinds_[kind];
  if (range.begin == range.end) range.begin = moves_.size();
  moves_.push_back({static_cast<MoveKind>(kind), labels.add(label)});
  range.end = moves_.size();
}

std::vector<float> Parser::feature_parts(const TokenVectors& vectors) const {
  const std::int64_t rows = vectors.rows();
  std::vector<float> low(static_cast<std::size_t>(rows * kHidden));
  lower_.apply(vectors.data(), TokenVectors::kWidth, rows, low.data(), kHidden);
  std::vector<float> parts(static_cast<std::size_t>(rows * kParts));
  features_.apply(low.data(), kHidden, rows, parts.data(), kParts);
  return parts;
}

// `parts` are those of the text's first token.
void Parser::hidden_units(const ParseState& state, const float* parts, float* out) const {
  std::array<float, kUnits> sum;
  std::copy(bias_.begin(), bias_.end(), sum.begin());
  const auto tokens = state.features();
  for (std::size_t f = 0; f < tokens.size(); ++f) {
    const float* token = tokens[f] == ParseState::kNone ? pad_.data() : parts + tokens[f] * kParts;
    const float* part = token + f * kUnits;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  for (std::size_t i = 0; i < kHidden; ++i) out[i] = std::max(sum[i], sum[kHidden + i]);
}

const Parser::Move& Parser::best_move(const ParseState& state, const float* scores) const {
  const auto valid = state.valid();
  std::size_t best = moves_.size();
  for (std::size_t kind = 0; kind < kMoveKinds; ++kind) {
    if (!valid[kind]) continue;
    for (std::size_t i = kinds_[kind].begin; i < kinds_[kind].end; ++i)
      if (best == moves_.size() || scores[i] > scores[best]) best = i;
  }
  FATHOM_CHECK(best < moves_.size(), "a parse that is not final has no move");
  return moves_[best];
}

std::vector<Arcs> Parser::run(const TokenVectors& vectors,
                              std::span<const std::size_t> tokens) const {
  const std::vector<float> parts = feature_parts(vectors);
  std::vector<ParseState> states;
  std::vector<std::size_t> active;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    states.emplace_back(tokens[i]);
    if (tokens[i] > 0) active.push_back(i);
  }
  std::vector<float> hidden(active.size() * kHidden);
  std::vector<float> scores(active.size() * moves_.size());
  while (!active.empty()) {
    for (std::size_t a = 0; a < active.size(); ++a)
      hidden_units(states[active[a]], parts.data() + vectors.first_row(active[a]) * kParts,
                   hidden.data() + a * kHidden);
    upper_.apply(hidden.data(), kHidden, static_cast<std::int64_t>(active.size()), scores.data(),
                 upper_.outputs());
    for (std::size_t a = 0; a < active.size(); ++a) {
      ParseState& state = states[active[a]];
      const Move& move = best_move(state, scores.data() + a * moves_.size());
      state.apply(move.kind, move.label);
    }
    std::erase_if(active, [&](std::size_t i) { return states[i].is_final(); });
  }
  std::vector<Arcs> out(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i)
    for (std::size_t t = 0; t < tokens[i]; ++t) {
      out[i].head.push_back(states[i].head(t));
      out[i].label.push_back(states[i].label(t));
    }
  return out;
}

}  // namespace fathom::data::spans::english
