#pragma once

#include <charconv>
#include <string>

namespace fathom::diagnose {

/// The shortest decimal that reads back as this finite number, whatever the locale.
inline std::string shortest(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

/// At most so many significant digits, for labels.
inline std::string rounded(double value, int digits) {
  char text[32];
  return {text,
          std::to_chars(text, text + sizeof text, value, std::chars_format::general, digits).ptr};
}

}  // namespace fathom::diagnose
