#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/spans/english/model_file.h"
#include "data/spans/english/string_ids.h"

namespace fathom::data::spans::english {

/// What the model knows of a word's form, wherever it stands.
struct Lexeme {
  /// The first four features of the network: string ids of the normal form, the first character,
  /// the last three, and the shape ("Xxxxx", "dd").
  enum Feature : std::size_t { norm, prefix, suffix, shape, kFeatures };
  std::array<std::uint64_t, kFeatures> feature{};
  /// Rows of the embedding tables that these hash to, four for each.
  std::array<std::array<std::uint16_t, 4>, kFeatures> rows{};
  std::uint64_t orth = 0;   ///< string id of the form itself
  std::uint64_t lower = 0;  ///< string id of its lower case
  bool is_space = false;    ///< white space only
};

/// Makes lexemes. Immutable.
class Lexicon {
 public:
  explicit Lexicon(const ModelFile& model);

  /// `form` is not empty and valid UTF-8.
  Lexeme make(std::string_view form) const;
  /// The same with another normal form, as tokenizer exceptions give.
  Lexeme make(std::string_view form, std::string_view norm) const;

  std::uint64_t id(std::string_view text) const { return ids_(text); }
  /// Rows of feature `table` (in the order of ModelFile::embed) for a value.
  std::array<std::uint16_t, 4> rows(std::size_t table, std::uint64_t value) const;

 private:
  void set(Lexeme& lexeme, Lexeme::Feature feature, std::uint64_t value) const;

  StringIds ids_;
  std::unordered_map<std::uint64_t, std::uint64_t> norms_;  // by the exact form
  std::array<std::uint32_t, ModelFile::kFeatures> seeds_;
  std::array<std::uint32_t, ModelFile::kFeatures> table_rows_;
};

/// str.isspace of Python: white space only, and at least one.
bool is_all_space(std::string_view text);

/// "Apple2" -> "Xxxxxd": letters X or x, digits d, other characters themselves, runs cut at four.
std::string shape_of(std::string_view form);

}  // namespace fathom::data::spans::english
