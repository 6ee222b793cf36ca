#include "checkpoints/shard.h"

#include <cstdio>

#include "checkpoints/h5_types.h"
#include "checkpoints/writeback.h"
#include "core/error.h"
#include "core/h5.h"

namespace fathom::checkpoints {
namespace {

constexpr std::int64_t kSliceBytes = 16 << 20;

void tell(const SaveObserver& observer, std::string_view stage) {
  if (observer) observer(stage);
}

/// "model.norm.weight@0", the offset telling pieces of one tensor apart.
std::string dataset_name(const std::string& tensor, const Rectangle& box) {
  std::string name = tensor + "@";
  for (std::size_t d = 0; d < box.offset.size(); ++d)
    name += (d > 0 ? "," : "") + std::to_string(box.offset[d]);
  return name;
}

void write_piece(h5::File& file, const std::string& dataset, const LocalTensor& tensor,
                 const LocalPiece& piece) {
  const h5::Type type = to_h5(tensor.dtype);
  h5::Shape extent = to_h5(piece.box.extent);
  file.create_dataset(dataset, type, extent);
  h5::Shape offset(extent.size(), 0);
  if (extent.empty()) {
    file.write_part(dataset, type, offset, extent, piece.data);
    return;
  }
  const std::uint64_t rows = extent[0];
  const auto row_bytes = static_cast<std::int64_t>(size_of(tensor.dtype)) *
                         (rows > 0 ? element_count(piece.box) / piece.box.extent[0] : 0);
  const auto slice = static_cast<std::uint64_t>(
      std::max<std::int64_t>(1, kSliceBytes / std::max<std::int64_t>(1, row_bytes)));
  const auto* data = static_cast<const std::byte*>(piece.data);
  for (std::uint64_t row = 0; row < rows; row += slice) {
    offset[0] = row;
    extent[0] = std::min(slice, rows - row);
    file.write_part(dataset, type, offset, extent,
                    data + row * static_cast<std::uint64_t>(row_bytes));
  }
}

}  // namespace

std::string shard_name(int rank) {
  char name[32];
  std::snprintf(name, sizeof name, "rank_%05d.h5", rank);
  return name;
}

ShardReport write_shard(const std::filesystem::path& folder, int rank, const Snapshot& snapshot,
                        const SaveObserver& observer) {
  ShardReport report;
  if (snapshot.tensors.empty()) return report;
  const std::string name = shard_name(rank);
  h5::File file = h5::File::create(folder / name);
  tell(observer, "shard created");
  Writeback writeback(folder / name);
  std::size_t written = 0;
  for (const LocalTensor& tensor : snapshot.tensors) {
    const auto [at, is_new] =
        report.tensors.emplace(tensor.name, TensorRecord{tensor.dtype, tensor.shape, {}});
    FATHOM_CHECK(is_new, "tensor '", tensor.name, "' is given twice by rank ", rank);
    for (const LocalPiece& piece : tensor.pieces) {
      const auto bytes = static_cast<std::size_t>(element_count(piece.box)) * size_of(tensor.dtype);
      const std::string dataset = dataset_name(tensor.name, piece.box);
      at->second.pieces.push_back({piece.box, name, dataset, checksum(piece.data, bytes)});
      write_piece(file, dataset, tensor, piece);
      writeback.wrote(bytes);
    }
    if (++written == (snapshot.tensors.size() + 1) / 2) tell(observer, "shard half written");
  }
  file.close();
  report.files[name] = std::filesystem::file_size(folder / name);
  tell(observer, "shard written");
  return report;
}

}  // namespace fathom::checkpoints
