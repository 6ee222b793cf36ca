#include "train/method_state.h"

#include <memory>
#include <utility>

#include "core/parameter_names.h"

namespace fathom::train {
namespace {

std::string array_prefix() {
  return std::string(kMethodPrefix) + "state.";
}

}  // namespace

bool is_method_state(const std::string& name) {
  return name.starts_with(array_prefix());
}

void append(const MethodState& state, checkpoints::Snapshot& snapshot) {
  const auto arrays = std::make_shared<decltype(state.arrays)>(state.arrays);
  for (const auto& [name, values] : *arrays) {
    if (values.empty()) continue;
    const auto count = static_cast<std::int64_t>(values.size());
    snapshot.tensors.push_back(
        {array_prefix() + name, DType::i32, {count}, {{{{0}, {count}}, values.data()}}});
  }
  snapshot.memory =
      std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
          snapshot.memory, arrays);
}

MethodState read_method_state(checkpoints::CheckpointReader& reader, const std::string& values) {
  MethodState state{.values = values};
  const std::string prefix = array_prefix();
  for (const auto& [name, tensor] : reader.manifest().tensors) {
    if (!is_method_state(name)) continue;
    require(tensor.shape.size() == 1 && tensor.dtype == DType::i32, ErrorKind::io,
            reader.folder().string(), ": ", name, " is not a list of integers");
    std::vector<std::int32_t> array(static_cast<std::size_t>(tensor.shape[0]));
    reader.read(name, {{0}, {tensor.shape[0]}}, DType::i32, array.data());
    state.arrays.emplace(name.substr(prefix.size()), std::move(array));
  }
  return state;
}

}  // namespace fathom::train
