#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace fathom {

/// What went wrong, in the terms that decide who must act. Each kind has its own exit code.
enum class ErrorKind {
  usage,     ///< the command line itself is malformed
  config,    ///< a value that the program refuses before it takes memory
  data,      ///< the content of a data set, tokenizer or model file
  io,        ///< a file could not be read or written, or a checkpoint is damaged
  comm,      ///< another rank failed, disagreed or did not answer
  numeric,   ///< NaN or infinity where a finite number was needed
  internal,  ///< a broken promise inside Fathom
};

/// Process exit code of a kind: usage and config 2, data 3, io 4, comm 5, numeric 6, internal 70.
int exit_code(ErrorKind kind);

/// Lower-case name of a kind, as printed in front of the message.
const char* to_string(ErrorKind kind);

/// The one exception of the project. The text names what, where, the value, and what would be
/// right.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// Concatenates its arguments through operator<<.
template <typename... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Throws Error(kind, concatenation of parts).
template <typename... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {
  throw Error(kind, str(parts...));
}

/// Throws Error(kind, parts...) unless the condition holds.
template <typename... Parts>
void require(bool condition, ErrorKind kind, const Parts&... parts) {
  if (!condition) fail(kind, parts...);
}

}  // namespace fathom

/// An invariant of our own code: throws an internal Error with file, line and the text given.
#define FATHOM_CHECK(condition, ...)                                                    \
  do {                                                                                  \
    if (!(condition))                                                                   \
      ::fathom::fail(::fathom::ErrorKind::internal, __FILE__, ":", __LINE__,            \
                     ": check failed: ", #condition, ": ", ::fathom::str(__VA_ARGS__)); \
  } while (false)
