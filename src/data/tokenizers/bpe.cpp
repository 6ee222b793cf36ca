#include "data/tokenizers/bpe.h"

#include <algorithm>
#include <cstdio>

#include "core/error.h"
#include "data/tokenizers/byte_alphabet.h"
#include "data/tokenizers/unicode.h"

namespace fathom::data {
namespace {

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

std::string byte_token(int byte) {
  char name[8];
  std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
  return name;
}

bool later(const BpeModel::Scratch::Candidate& a, const BpeModel::Scratch::Candidate& b) {
  return a.priority > b.priority;
}

}  // namespace

void TokenTable::add(const std::string& token, std::int64_t id, const std::string& where) {
  constexpr std::int64_t limit = 1 << 24;
  require(id >= 0 && id < limit, ErrorKind::data, where, ": token '", token, "' has id ", id,
          "; ids are 0 to ", limit - 1);
  const auto [known, fresh] = ids_.emplace(token, static_cast<std::int32_t>(id));
  require(known->second == id, ErrorKind::data, where, ": token '", token, "' has two ids, ",
          known->second, " and ", id);
  if (!fresh) return;
  const auto index = static_cast<std::size_t>(id);
  if (strings_.size() <= index) strings_.resize(index + 1);
  require(strings_[index].empty(), ErrorKind::data, where, ": id ", id, " is both '",
          strings_[index], "' and '", token, "'");
  strings_[index] = token;
}

std::optional<std::int32_t> TokenTable::find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

BpeModel::BpeModel(const BpeSpec& spec, const std::string& where)
    : byte_level_(spec.byte_level), fuse_unk_(spec.fuse_unk), ignore_merges_(spec.ignore_merges) {
  load_symbols(spec, where);
  const auto id_of = [&](const std::string& token, std::size_t rank) {
    const auto id = spec.vocab.find(token);
    require(id.has_value(), ErrorKind::data, where, ": merge ", rank, " ('",
            spec.merges[rank].first, "' '", spec.merges[rank].second, "'): '", token,
            "' is not in the vocabulary");
    return *id;
  };
  merges_.reserve(spec.merges.size());
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto& [left, right] = spec.merges[rank];
    const std::uint64_t key = pair_key(id_of(left, rank), id_of(right, rank));
    merges_[key] = {static_cast<std::uint32_t>(rank), id_of(left + right, rank)};
  }
}

void BpeModel::load_symbols(const BpeSpec& spec, const std::string& where) {
  for (std::int32_t id = 0; id < spec.vocab.size(); ++id) {
    const std::string& token = spec.vocab[id];
    if (token.empty()) continue;
    const auto bytes = byte_level_ ? bytes_of_token(token) : std::optional(token);
    if (!bytes) continue;
    if (ignore_merges_) words_.emplace(*bytes, id);
    const CodePoint first = code_point_at(token, 0);
    if (first.length != token.size()) continue;
    symbols_.emplace(byte_level_ ? static_cast<unsigned char>((*bytes)[0]) : first.value, id);
  }
  if (spec.unk_token) {
    unk_id_ = spec.vocab.find(*spec.unk_token);
    require(unk_id_.has_value(), ErrorKind::data, where, ": unk_token '", *spec.unk_token,
            "' is not in the vocabulary");
  }
  if (!spec.byte_fallback) return;
  byte_tokens_.emplace();
  for (int byte = 0; byte < 256; ++byte) {
    const auto id = spec.vocab.find(byte_token(byte));
    require(id.has_value(), ErrorKind::data, where, ": byte_fallback needs the token '",
            byte_token(byte), "', which is not in the vocabulary");
    (*byte_tokens_)[static_cast<std::size_t>(byte)] = *id;
  }
}

void BpeModel::tokenize(std::string_view word, Scratch& scratch, std::vector<Token>& tokens) const {
  if (ignore_merges_) {
    const auto whole = words_.find(std::string(word));
    if (whole != words_.end()) {
      tokens.push_back({whole->second, {0, static_cast<std::uint32_t>(word.size())}});
      return;
    }
  }
  split(word, scratch);
  merge(scratch);
  for (const auto& symbol : scratch.symbols) {
    if (symbol.begin < symbol.end) tokens.push_back({symbol.id, {symbol.begin, symbol.end}});
  }
}

/// One symbol for each character (byte-level: each byte), linked to its neighbours.
void BpeModel::split(std::string_view word, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  const auto add = [&](std::int32_t id, std::size_t begin, std::size_t end) {
    const auto index = static_cast<std::int32_t>(symbols.size());
    if (index > 0) symbols.back().next = index;
    symbols.push_back(
        {id, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), index - 1, -1});
  };
  bool after_unknown = false;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t length = byte_level_ ? 1 : code_point_at(word, at).length;
    const std::int32_t id = symbol_of(word.substr(at, length));
    const bool unknown = id < 0 && !byte_tokens_ && unk_id_;
    if (id >= 0) {
      add(id, at, at + length);
    } else if (byte_tokens_) {
      for (std::size_t i = at; i < at + length; ++i) {
        add((*byte_tokens_)[static_cast<unsigned char>(word[i])], i, i + 1);
      }
    } else if (unknown && after_unknown && fuse_unk_) {
      symbols.back().end = static_cast<std::uint32_t>(at + length);
    } else if (unknown) {
      add(*unk_id_, at, at + length);
    }
    after_unknown = unknown;
    at += length;
  }
}

/// Joins the pair with the best merge, the leftmost of several, until no pair has one. Entries of
/// the heap are not removed when their pair changes: they are recognised as they come up.
void BpeModel::merge(Scratch& scratch) const {
  auto& [symbols, heap, candidates] = scratch;
  heap.clear();
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) push(scratch, static_cast<std::int32_t>(i));
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Scratch::Candidate best = heap.back();
    heap.pop_back();
    const auto position = static_cast<std::int32_t>(best.priority & 0xFFFFFFFFu);
    auto& left = symbols[static_cast<std::size_t>(position)];
    if (left.begin == left.end || left.next < 0) continue;
    auto& right = symbols[static_cast<std::size_t>(left.next)];
    const Merge* current = find(left.id, right.id);
    if (!current || current->id != best.id) continue;
    left.id = best.id;
    left.end = right.end;
    left.next = right.next;
    right.begin = right.end;
    if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = position;
    if (left.previous >= 0) push(scratch, left.previous);
    if (left.next >= 0) push(scratch, position);
  }
}

/// Makes the pair that begins at `position` a candidate if it has a merge.
void BpeModel::push(Scratch& scratch, std::int32_t position) const {
  const auto& left = scratch.symbols[static_cast<std::size_t>(position)];
  const auto& right = scratch.symbols[static_cast<std::size_t>(left.next)];
  const Merge* found = find(left.id, right.id);
  if (!found) return;
  const auto low = static_cast<std::uint32_t>(position);
  scratch.heap.push_back({std::uint64_t{found->rank} << 32 | low, found->id});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), later);
  ++scratch.candidates;
}

const BpeModel::Merge* BpeModel::find(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

std::int32_t BpeModel::symbol_of(std::string_view character) const {
  const char32_t key =
      byte_level_ ? static_cast<unsigned char>(character[0]) : code_point_at(character, 0).value;
  const auto found = symbols_.find(key);
  return found == symbols_.end() ? -1 : found->second;
}

std::string BpeModel::describe() const {
  std::ostringstream out;
  out << "bpe " << byte_level_ << ignore_merges_ << byte_tokens_.has_value();
  if (unk_id_ && !byte_tokens_) out << " unk " << *unk_id_ << fuse_unk_;
  std::vector<std::pair<Merge, std::uint64_t>> ordered;
  for (const auto& [pair, merge] : merges_) ordered.push_back({merge, pair});
  std::sort(ordered.begin(), ordered.end(),
            [](const auto& a, const auto& b) { return a.first.rank < b.first.rank; });
  for (const auto& [merge, pair] : ordered) out << ' ' << pair << ':' << merge.id;
  return out.str();
}

}  // namespace fathom::data
