#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::eval {

/// The words that ROUGE compares, as the rouge-score package (0.1.2, use_stemmer=True) takes them:
/// lower case, every run of characters other than a-z and 0-9 separates, words of more than three
/// letters are stemmed. Letters outside ASCII therefore separate too: a text in another script has
/// no words at all.
std::vector<std::string> rouge_tokens(std::string_view text);

/// Length of the longest common subsequence; memory in proportion to the lengths.
std::size_t common_subsequence(std::span<const std::string> a, std::span<const std::string> b);

/// ROUGE-L (Lin 2004) of two word lists: F = 2PR / (P + R) with P = LCS / words of the answer and
/// R = LCS / words of the reference, between 0 and 1; 0 where one of them is empty.
double rouge_l(std::span<const std::string> answer, std::span<const std::string> reference);

/// The best ROUGE-L of an answer over its references. Throws Error(data) if there is none.
double best_rouge_l(std::string_view answer, std::span<const std::string> references);

}  // namespace fathom::eval
