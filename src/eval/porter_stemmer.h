#pragma once

#include <string>
#include <string_view>

namespace fathom::eval {

/// The stem of an English word by Porter's algorithm (Program 14(3), 1980) with the later changes
/// that NLTK calls NLTK_EXTENSIONS: a few irregular words, "dies" and "died" to "die", y to i
/// behind a consonant only, "bli" for "abli", "alli" before the other suffixes of its step, "fulli"
/// and "logi". ROUGE scores that are to be compared with others' need exactly this variant.
///
/// `word` is lower-case ASCII; digits count as consonants.
std::string porter_stem(std::string_view word);

}  // namespace fathom::eval
