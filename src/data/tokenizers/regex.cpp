#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizers/regex.h"

#include <cctype>
#include <limits>
#include <pcre2.h>

#include "core/error.h"

namespace fathom::data {
namespace {

// PCRE2's own \s also takes in U+180E, which left White_Space with Unicode 6.3.
constexpr const char* kWhiteSpace =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

/// Tokenizer files are written for Oniguruma. What means the same in PCRE2 is passed on, \s and \S
/// are written out as sets, and what would silently mean something else is refused.
class Translator {
 public:
  Translator(const std::string& pattern, const std::string& where)
      : pattern_(pattern), where_(where) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        class_member(c);
      } else {
        if (c == '^' || c == '$') refuse(c, " (line and text anchors differ)");
        if (c == '[') open_class();
        copy(1);
      }
    }
    return out_;
  }

 private:
  void copy(std::size_t count) {
    out_ += pattern_.substr(at_, count);
    at_ += count;
  }

  bool follows(std::string_view text) const {
    return std::string_view(pattern_).substr(at_).starts_with(text);
  }

  void open_class() {
    in_class_ = true;
    if (pattern_.compare(at_ + 1, 1, "^") == 0) copy(1);
    if (pattern_.compare(at_ + 1, 1, "]") == 0) refuse(']', " as the first in a class");
  }

  void class_member(char c) {
    if (c == '[' || follows("&&")) refuse(c, " inside a class");
    if (c == ']') in_class_ = false;
    copy(1);
  }

  void escape() {
    const char c = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\\';
    if (c == 's' || c == 'S') {
      if (c == 'S' && in_class_) refuse("\\S", " inside a class");
      out_ += in_class_ ? kWhiteSpace : str(c == 's' ? "[" : "[^", kWhiteSpace, ']');
      at_ += 2;
      return;
    }
    const bool named = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (named && std::string_view("dDpPnrtx").find(c) == std::string_view::npos) {
      refuse(str('\\', c), "");
    }
    copy(2);
  }

  template <typename What>
  [[noreturn]] void refuse(const What& what, const char* why) const {
    fail(ErrorKind::data, where_, ": the pattern '", pattern_, "' has ", what, why,
         ", which is not supported");
  }

  const std::string& pattern_;
  const std::string& where_;
  std::string out_;
  std::size_t at_ = 0;
  bool in_class_ = false;
};

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

struct Regex::Code {
  pcre2_code* compiled = nullptr;

  Code(const std::string& pattern, const std::string& where) {
    const std::string text = Translator(pattern, where).run();
    int error = 0;
    PCRE2_SIZE at = 0;
    compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                             PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
    require(compiled != nullptr, ErrorKind::data, where, ": pattern '", pattern,
            "' cannot be compiled: ", message_of(error), " near byte ", at);
    // Where the machine has no JIT, matching interprets: slower, same result.
    pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
  }
  ~Code() { pcre2_code_free(compiled); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
};

Regex::Regex(const std::string& pattern, const std::string& where)
    : pattern_(pattern), code_(std::make_unique<const Code>(pattern, where)) {}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

void Regex::isolate(std::string_view text, std::uint32_t offset, std::vector<Slice>& pieces) const {
  thread_local Scratch scratch;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  // The caller has checked the text once; PCRE2 would check all of it again at every match.
  constexpr std::uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
  const auto piece = [&](std::size_t begin, std::size_t end) {
    if (begin == end) return;
    pieces.push_back(
        {offset + static_cast<std::uint32_t>(begin), offset + static_cast<std::uint32_t>(end)});
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const auto match = [&](std::uint32_t extra) {
      return pcre2_match(code_->compiled, subject, text.size(), at, options | extra, scratch.match,
                         scratch.context);
    };
    int status = match(0);
    // The interpreter keeps its backtracking points on the heap and has no such bound.
    if (status == PCRE2_ERROR_JIT_STACKLIMIT) status = match(PCRE2_NO_JIT);
    if (status == PCRE2_ERROR_NOMATCH) break;
    FATHOM_CHECK(status >= 0, "matching '", pattern_, "': ", message_of(status));
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(scratch.match);
    piece(at, range[0]);
    piece(range[0], range[1]);
    at = range[1];
  }
  piece(at, text.size());
}

}  // namespace fathom::data
