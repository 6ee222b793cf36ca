#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/spans/english/string_ids.h"
#include "data/spans/extractor.h"

/// What data_tools/spans/export_model.py writes, in memory. Weights keep the package's own layout.
namespace fathom::data::spans::english {

/// A weight matrix (or vector) with its shape.
struct Weights {
  std::vector<std::uint64_t> shape;
  std::vector<float> values;
};

struct LinearWeights {
  Weights weight;  // [outputs..., inputs]
  Weights bias;    // [outputs...]
};

struct MaxoutWeights {
  LinearWeights linear;  // weight [width, pieces, inputs]
  Weights gain, shift;   // of the layer norm
};

/// One token of a tokenizer exception; without `norm` it has its lexical one.
struct SpecialToken {
  std::string orth;
  std::optional<std::string> norm;
};

/// A set of names, or all but those.
struct NameSet {
  std::vector<std::string> names;
  bool negated = false;
};

/// One token of an attribute ruler pattern; an absent condition always holds.
struct RuleToken {
  std::optional<NameSet> tag, dep, lower;
  std::optional<bool> is_space;
};

struct Rule {
  std::vector<RuleToken> tokens;
  std::size_t index = 0;  // of the token that is changed
  std::optional<std::string> tag, pos, dep;
};

struct ModelFile {
  /// Throws Error(io) for a file that cannot be read, Error(data) for one of another format or
  /// version, or whose tables or shapes do not fit together.
  static ModelFile read(const std::filesystem::path& path);

  ModelInfo info;

  /// Hashed embedding tables [rows, width]: NORM, PREFIX, SUFFIX, SHAPE, SPACY, IS_SPACE.
  static constexpr std::size_t kFeatures = 6;
  std::array<Weights, kFeatures> embed;
  std::array<std::uint32_t, kFeatures> seeds{};
  std::vector<MaxoutWeights> maxout;  // the first mixes the features, the others look at neighbours
  LinearWeights tagger;
  LinearWeights parser_lower, parser_hidden, parser_upper;
  Weights parser_pad;  // [features, width, pieces], for a feature that is no token

  std::string prefix_pattern, suffix_pattern, infix_pattern, url_pattern;
  std::vector<std::pair<std::string, std::vector<SpecialToken>>> special_cases;
  std::vector<std::pair<std::uint64_t, std::string>> lexeme_norms;  // by string id
  std::vector<std::pair<std::string, std::string>> base_norms;
  TextMap<std::uint64_t> symbols;
  std::vector<std::string> tags;
  std::vector<std::string> moves;
  std::vector<Rule> rules;
};

}  // namespace fathom::data::spans::english
