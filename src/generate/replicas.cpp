#include "generate/replicas.h"

#include <algorithm>
#include <cstring>

namespace fathom::generate {
namespace {

// Bytes of one rank's continuations, and back: ranks of a job are alike, so plain copies do.
class Packed {
 public:
  Packed() = default;
  explicit Packed(std::string bytes) : bytes_(std::move(bytes)) {}

  template <typename T>
  void put(const T* values, std::size_t count) {
    bytes_.append(reinterpret_cast<const char*>(values), count * sizeof(T));
  }
  template <typename T>
  void take(T* values, std::size_t count) {
    FATHOM_CHECK(at_ + count * sizeof(T) <= bytes_.size(), "continuations cut short");
    std::memcpy(values, bytes_.data() + at_, count * sizeof(T));
    at_ += count * sizeof(T);
  }
  bool ended() const { return at_ == bytes_.size(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

void put(Packed& packed, const Continuation& text) {
  const std::uint64_t count = text.ids.size();
  packed.put(&count, 1);
  packed.put(&text.reason, 1);
  packed.put(text.ids.data(), text.ids.size());
  packed.put(text.logprobs.data(), text.logprobs.size());
}

Continuation take(Packed& packed) {
  std::uint64_t count = 0;
  Continuation text;
  packed.take(&count, 1);
  packed.take(&text.reason, 1);
  text.ids.resize(count);
  text.logprobs.resize(count);
  packed.take(text.ids.data(), count);
  packed.take(text.logprobs.data(), count);
  return text;
}

}  // namespace

std::vector<Continuation> generate_over_replicas(Generator& generator, comm::ProcessGrid& grid,
                                                 const std::vector<Prompt>& prompts,
                                                 const TokenCallback& on_token,
                                                 const EndCallback& on_end) {
  const auto replicas = static_cast<std::size_t>(grid.dp().size());
  const auto replica = static_cast<std::size_t>(grid.dp().rank());
  const auto bound = [&](std::size_t r) { return prompts.size() * r / replicas; };
  const std::size_t first = bound(replica);
  const auto at = [&](std::size_t i) { return prompts.begin() + static_cast<std::ptrdiff_t>(i); };
  const std::vector<Prompt> mine(at(first), at(bound(replica + 1)));
  TokenCallback told;
  if (on_token)
    told = [&](std::size_t prompt, const Choice& choice) { on_token(first + prompt, choice); };
  EndCallback told_end;
  if (on_end)
    told_end = [&](std::size_t prompt, std::span<const std::int32_t> ids) {
      on_end(first + prompt, ids);
    };
  std::vector<Continuation> texts = generator.generate(mine, told, told_end);
  if (replicas == 1) return texts;
  Packed packed;
  for (const Continuation& text : texts) put(packed, text);
  texts.clear();
  for (std::string& bytes : grid.dp().all_gather_text(packed.bytes())) {
    Packed received(std::move(bytes));
    while (!received.ended()) texts.push_back(take(received));
  }
  FATHOM_CHECK(texts.size() == prompts.size(), texts.size(), " continuations of ", prompts.size(),
               " prompts");
  return texts;
}

}  // namespace fathom::generate
