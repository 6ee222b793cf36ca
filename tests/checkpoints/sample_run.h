#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "checkpoints/checkpoint_reader.h"
#include "checkpoints/shard.h"

/// A small model's worth of tensors whose every element is a known function of its place, and how a
/// grid of any number of ranks would share them.
namespace fathom::checkpoints::sample {

struct Tensor {
  std::string name;
  DType dtype;
  Shape shape;
  int split_dim;  ///< cut between the ranks along this dim; -1: one rank holds it whole
};

inline std::vector<Tensor> tensors() {
  std::vector<Tensor> list = {{"embed.weight", DType::f32, {37, 8}, 0},
                              {"layers.0.q.weight", DType::f32, {12, 8}, 0},
                              {"layers.0.o.weight", DType::f32, {8, 12}, 1},
                              {"layers.0.norm.weight", DType::f32, {8}, -1},
                              {"layers.1.conv.weight", DType::f32, {5, 9, 3}, 1},
                              {"frozen.weight", DType::bf16, {6, 10}, 1},
                              {"mask", DType::i32, {11}, 0},
                              {"scale", DType::f32, {}, -1}};
  const std::size_t parameters = list.size();
  for (std::size_t i = 0; i < parameters; ++i) {
    if (list[i].dtype != DType::f32) continue;
    for (const char* moment : {"#exp_avg", "#exp_avg_sq"}) {
      Tensor copy = list[i];
      copy.name += moment;
      list.push_back(copy);
    }
  }
  return list;
}

/// Any bit pattern may occur, NaN among them: a checkpoint must not look at values.
inline std::vector<std::byte> values(const Tensor& tensor, const Rectangle& box,
                                     std::uint32_t salt = 0) {
  const std::size_t size = size_of(tensor.dtype);
  std::vector<std::byte> bytes(static_cast<std::size_t>(element_count(box)) * size);
  const auto seed = static_cast<std::uint32_t>(std::hash<std::string>{}(tensor.name)) + salt;
  for_each_run(whole(tensor.shape), box, [&](auto from, auto to, auto length) {
    for (std::int64_t i = 0; i < length; ++i) {
      const auto bits = (static_cast<std::uint32_t>(from + i) + seed) * 2654435761u;
      std::memcpy(bytes.data() + static_cast<std::size_t>(to + i) * size, &bits, size);
    }
  });
  return bytes;
}

/// The part of a tensor that a rank holds; nothing if it has none of it.
inline std::optional<Rectangle> part(const Tensor& tensor, std::size_t index, int rank, int ranks) {
  Rectangle box = whole(tensor.shape);
  if (tensor.split_dim < 0) {
    if (static_cast<int>(index) % ranks != rank) return std::nullopt;
    return box;
  }
  const auto d = static_cast<std::size_t>(tensor.split_dim);
  const std::int64_t begin = tensor.shape[d] * rank / ranks;
  const std::int64_t end = tensor.shape[d] * (rank + 1) / ranks;
  box.offset[d] = begin;
  box.extent[d] = end - begin;
  return box;
}

inline Snapshot snapshot(int rank, int ranks, std::uint32_t salt = 0) {
  auto memory = std::make_shared<std::vector<std::vector<std::byte>>>();
  Snapshot made;
  const auto list = tensors();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto box = part(list[i], i, rank, ranks);
    if (!box) continue;
    memory->push_back(values(list[i], *box, salt));
    made.tensors.push_back(
        {list[i].name, list[i].dtype, list[i].shape, {{*box, memory->back().data()}}});
  }
  made.memory = memory;
  return made;
}

inline RunInfo run_info(std::int64_t step) {
  return {step, R"({"sample":)" + std::to_string(step * 8) + "}", "[train]\nseed = 1\n",
          "tp=1 pp=1 dp=1", "fathom test"};
}

/// How many of the boxes that a rank of such a grid would ask for differ from what was saved.
inline int count_wrong(CheckpointReader& reader, int rank, int ranks, std::uint32_t salt = 0) {
  int wrong = 0;
  const auto list = tensors();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto box = part(list[i], i, rank, ranks);
    if (!box) continue;
    const auto wanted = values(list[i], *box, salt);
    std::vector<std::byte> found(wanted.size(), std::byte{0x5a});
    reader.at(list[i].name, list[i].shape);
    reader.read(list[i].name, *box, list[i].dtype, found.data());
    wrong += found != wanted;
  }
  return wrong;
}

}  // namespace fathom::checkpoints::sample
