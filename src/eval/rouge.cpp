#include "eval/rouge.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <unordered_map>

#include "core/error.h"
#include "eval/porter_stemmer.h"

namespace fathom::eval {
namespace {

using Bits = std::vector<std::uint64_t>;
constexpr std::size_t kWordBits = 64;

// The two characters outside ASCII whose lower case has a letter of it: the Kelvin sign is a k, and
// an I with a dot above an i and a combining dot, which separates.
constexpr std::string_view kKelvin = "\xE2\x84\xAA", kDottedI = "\xC4\xB0";

// For each token, a bit for every place where the list has it.
class PlaceBits {
 public:
  explicit PlaceBits(std::span<const std::string> list) : none_(words_for(list.size()), 0) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      Bits& bits = places_.try_emplace(list[i], none_).first->second;
      bits[i / kWordBits] |= std::uint64_t{1} << (i % kWordBits);
    }
  }
  const Bits& of(std::string_view token) const {
    const auto found = places_.find(token);
    return found == places_.end() ? none_ : found->second;
  }
  static std::size_t words_for(std::size_t bits) { return (bits + kWordBits - 1) / kWordBits; }

 private:
  Bits none_;
  std::unordered_map<std::string_view, Bits> places_;
};

// row <- (row + (row & places)) | (row & ~places), the sum as one long number.
void advance(Bits& row, const Bits& places) {
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::uint64_t hit = row[i] & places[i];
    const std::uint64_t with_carry = row[i] + carry;
    const std::uint64_t sum = with_carry + hit;
    carry = (with_carry < carry) | (sum < hit);
    row[i] = sum | (row[i] & ~places[i]);
  }
}

}  // namespace

std::vector<std::string> rouge_tokens(std::string_view text) {
  std::vector<std::string> tokens;
  std::string token;
  const auto end_token = [&] {
    if (token.size() > 3) token = porter_stem(token);
    if (!token.empty()) tokens.push_back(std::move(token));
    token.clear();
  };
  while (!text.empty()) {
    const char c = text.front();
    std::size_t bytes = 1;
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      token += c;
    } else if (c >= 'A' && c <= 'Z') {
      token += static_cast<char>(c - 'A' + 'a');
    } else if (text.starts_with(kKelvin)) {
      token += 'k';
      bytes = kKelvin.size();
    } else {
      if (text.starts_with(kDottedI)) token += 'i';
      end_token();
    }
    text.remove_prefix(bytes);
  }
  end_token();
  return tokens;
}

// Hyyrö (2004): a row of the table of lengths as one bit a column, zero where the length grows.
std::size_t common_subsequence(std::span<const std::string> a, std::span<const std::string> b) {
  const PlaceBits places(a);
  Bits row(PlaceBits::words_for(a.size()), ~std::uint64_t{0});
  for (const std::string& token : b) advance(row, places.of(token));
  std::size_t length = 0;
  // Columns beyond the list stay ones.
  for (const std::uint64_t word : row) length += static_cast<std::size_t>(std::popcount(~word));
  return length;
}

double rouge_l(std::span<const std::string> answer, std::span<const std::string> reference) {
  if (answer.empty() || reference.empty()) return 0;
  const auto common = static_cast<double>(common_subsequence(answer, reference));
  if (common == 0) return 0;
  const double precision = common / static_cast<double>(answer.size());
  const double recall = common / static_cast<double>(reference.size());
  return 2 * precision * recall / (precision + recall);
}

double best_rouge_l(std::string_view answer, std::span<const std::string> references) {
  require(!references.empty(), ErrorKind::data, "an answer has no reference to be held against");
  const std::vector<std::string> tokens = rouge_tokens(answer);
  double best = 0;
  for (const std::string& reference : references)
    best = std::max(best, rouge_l(tokens, rouge_tokens(reference)));
  return best;
}

}  // namespace fathom::eval
