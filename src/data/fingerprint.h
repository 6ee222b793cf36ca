#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <xxhash.h>

#include "core/error.h"

namespace fathom::data {

/// A running xxh64 (seed 0) over bytes. Equal to one hash over all the bytes joined.
class Fingerprint {
 public:
  Fingerprint() : state_(XXH64_createState()) {
    FATHOM_CHECK(state_ != nullptr && XXH64_reset(state_.get(), 0) == XXH_OK, "xxh64 state");
  }

  void update(const void* bytes, std::size_t count) { XXH64_update(state_.get(), bytes, count); }
  void update(std::string_view text) { update(text.data(), text.size()); }
  template <typename T>
  void update(std::span<const T> values) {
    update(values.data(), values.size_bytes());
  }

  /// 16 lower-case hexadecimal digits of everything so far.
  std::string hex() const {
    std::array<char, 17> text{};
    std::snprintf(text.data(), text.size(), "%016llx",
                  static_cast<unsigned long long>(XXH64_digest(state_.get())));
    return text.data();
  }

 private:
  struct Free {
    void operator()(XXH64_state_t* state) const { XXH64_freeState(state); }
  };
  std::unique_ptr<XXH64_state_t, Free> state_;
};

inline std::string fingerprint_of(std::string_view text) {
  Fingerprint fingerprint;
  fingerprint.update(text);
  return fingerprint.hex();
}

}  // namespace fathom::data
