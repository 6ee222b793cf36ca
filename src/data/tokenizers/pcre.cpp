#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizers/pcre.h"

#include <cstdint>
#include <limits>
#include <pcre2.h>

#include "core/error.h"

namespace fathom::data {
namespace {

/// What a match writes to. One for each thread, shared by all patterns, so that matching neither
/// locks nor allocates.
struct Scratch {
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 * 1024, 16 * 1024 * 1024, nullptr);

  Scratch() {
    FATHOM_CHECK(match && context && stack, "no memory for regular expressions");
    pcre2_jit_stack_assign(context, nullptr, stack);
    constexpr auto unlimited = std::numeric_limits<std::uint32_t>::max();
    pcre2_set_match_limit(context, unlimited);
    pcre2_set_depth_limit(context, unlimited);
    pcre2_set_heap_limit(context, unlimited);
  }
  ~Scratch() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
};

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Pcre::Code {
  pcre2_code* compiled = nullptr;

  Code(const std::string& pattern, const std::string& where) {
    int error = 0;
    PCRE2_SIZE at = 0;
    compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &error, &at, nullptr);
    require(compiled != nullptr, ErrorKind::data, where, ": pattern '", pattern,
            "' cannot be compiled: ", message_of(error), " near byte ", at);
    // Where the machine has no JIT, matching interprets: slower, same result.
    pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
  }
  ~Code() { pcre2_code_free(compiled); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
};

Pcre::Pcre(const std::string& pattern, const std::string& where)
    : code_(std::make_shared<const Code>(pattern, where)) {}

std::optional<Pcre::Match> Pcre::find(std::string_view text, std::size_t from) const {
  thread_local Scratch scratch;
  // The caller has checked the text once; PCRE2 would check all of it again at every match.
  constexpr std::uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
  const auto match = [&](std::uint32_t extra) {
    return pcre2_match(code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                       from, options | extra, scratch.match, scratch.context);
  };
  int status = match(0);
  // The interpreter keeps its backtracking points on the heap and has no such bound.
  if (status == PCRE2_ERROR_JIT_STACKLIMIT) status = match(PCRE2_NO_JIT);
  if (status == PCRE2_ERROR_NOMATCH) return std::nullopt;
  FATHOM_CHECK(status >= 0, "matching a pattern: ", message_of(status));
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(scratch.match);
  return Match{range[0], range[1]};
}

}  // namespace fathom::data
