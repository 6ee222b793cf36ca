#include "comm/communicator.h"

#include <algorithm>
#include <exception>

namespace fathom::comm {

Request& Request::operator=(Request&& other) {
  if (this != &other) {
    wait();
    state_ = std::move(other.state_);
  }
  return *this;
}

Request::~Request() {
  if (!state_) return;
  if (std::uncaught_exceptions() > 0) {
    state_->abandon();
  } else {
    state_->wait();
  }
}

void Request::wait() {
  if (!state_) return;
  const auto state = std::move(state_);
  state->wait();
}

bool Request::test() {
  if (!state_) return true;
  if (!state_->test()) return false;
  state_.reset();
  return true;
}

std::vector<std::string> Communicator::all_gather_text(const std::string& mine) {
  const auto ranks = static_cast<std::size_t>(size());
  const std::uint64_t length = mine.size();
  std::vector<std::uint64_t> lengths(ranks);
  all_gather(&length, sizeof length, lengths.data());

  // One collective with every text padded to the longest, rather than one broadcast per rank.
  const std::size_t width = *std::max_element(lengths.begin(), lengths.end());
  std::string padded = mine;
  padded.resize(width);
  std::string all(width * ranks, '\0');
  all_gather(padded.data(), width, all.data());

  std::vector<std::string> texts;
  texts.reserve(ranks);
  for (std::size_t r = 0; r < ranks; ++r) texts.push_back(all.substr(r * width, lengths[r]));
  return texts;
}

std::string Communicator::broadcast_text(const std::string& text, int root) {
  std::uint64_t length = text.size();
  broadcast(&length, sizeof length, root);
  std::string result = rank() == root ? text : std::string(length, '\0');
  broadcast(result.data(), length, root);
  return result;
}

bool Communicator::all_agree(bool ok) {
  std::int64_t value = ok ? 1 : 0;
  all_reduce(&value, 1, ReduceOp::min);
  return value == 1;
}

}  // namespace fathom::comm
