#include "checkpoints/gather.h"

#include <cstdint>

namespace fathom::checkpoints {
namespace {

constexpr int kSizeTag = 30001;
constexpr int kTextTag = 30002;

}  // namespace

std::vector<std::string> gather_texts(comm::Communicator& world, const std::string& mine) {
  std::uint64_t size = mine.size();
  if (world.rank() != 0) {
    world.start_send(&size, sizeof size, 0, kSizeTag).wait();
    world.start_send(mine.data(), mine.size(), 0, kTextTag).wait();
    return {};
  }
  std::vector<std::string> texts = {mine};
  for (int rank = 1; rank < world.size(); ++rank) {
    world.start_recv(&size, sizeof size, rank, kSizeTag).wait();
    std::string& text = texts.emplace_back(size, '\0');
    world.start_recv(text.data(), size, rank, kTextTag).wait();
  }
  return texts;
}

}  // namespace fathom::checkpoints
