#include "checkpoints/view.h"

#include "checkpoints/h5_types.h"
#include "core/h5.h"

namespace fathom::checkpoints {

void write_view(const std::filesystem::path& folder, const Manifest& manifest) {
  h5::File view = h5::File::create(folder / "view.h5");
  view.set_attribute("/", "step", manifest.run.step);
  view.set_attribute("/", "state", manifest.run.state);
  view.set_attribute("/", "config", manifest.run.config);
  view.set_attribute("/", "grid", manifest.run.grid);
  view.set_attribute("/", "program", manifest.run.program);
  for (const auto& [name, tensor] : manifest.tensors) {
    if (element_count(tensor.shape) == 0) {
      view.create_dataset(name, to_h5(tensor.dtype), to_h5(tensor.shape));
      continue;
    }
    std::vector<h5::VirtualPiece> pieces;
    for (const PieceRecord& piece : tensor.pieces) {
      if (element_count(piece.box) == 0) continue;
      pieces.push_back(
          {piece.file, piece.dataset, to_h5(piece.box.offset), to_h5(piece.box.extent)});
    }
    view.create_virtual(name, to_h5(tensor.dtype), to_h5(tensor.shape), pieces);
  }
  view.close();
}

}  // namespace fathom::checkpoints
