#include "train/collect.h"

#include <cstring>

#include "model/weights.h"

namespace fathom::train {
namespace {

constexpr int kTag = 1;

// One fragment as a line: name, dims of the tensor, rectangle.
std::string describe(const std::vector<Fragment>& fragments) {
  std::ostringstream out;
  for (const Fragment& f : fragments) {
    out << f.name << ' ' << f.shape.dims();
    for (int d = 0; d < f.shape.dims(); ++d) out << ' ' << f.shape[d];
    out << ' ' << f.row << ' ' << f.column << ' ' << f.rows << ' ' << f.columns << '\n';
  }
  return out.str();
}

std::vector<Fragment> parse(const std::string& text) {
  std::vector<Fragment> fragments;
  std::istringstream in(text);
  Fragment f;
  int dims = 0;
  while (in >> f.name >> dims) {
    std::int64_t a = 0, b = 0;
    in >> a;
    if (dims == 2) in >> b;
    f.shape = dims == 2 ? Shape{a, b} : Shape{a};
    in >> f.row >> f.column >> f.rows >> f.columns;
    fragments.push_back(f);
  }
  return fragments;
}

void place(const Fragment& fragment, const std::vector<float>& values, WholeTensor& whole,
           std::int64_t& covered) {
  const std::int64_t width = fragment.shape.dims() == 2 ? fragment.shape[1] : 1;
  for (std::int64_t r = 0; r < fragment.rows; ++r)
    std::memcpy(whole.values.data() + (fragment.row + r) * width + fragment.column,
                values.data() + r * fragment.columns,
                static_cast<std::size_t>(fragment.columns) * sizeof(float));
  covered += fragment.rows * fragment.columns;
}

}  // namespace

std::map<std::string, WholeTensor> collect(comm::Communicator& world,
                                           const std::vector<Fragment>& fragments) {
  const std::vector<std::string> lists = world.all_gather_text(describe(fragments));
  if (world.rank() != 0) {
    for (const Fragment& f : fragments)
      world.start_send(f.values.data(), f.values.size() * sizeof(float), 0, kTag).wait();
    return {};
  }
  std::map<std::string, WholeTensor> tensors;
  std::map<std::string, std::int64_t> covered;
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::vector<Fragment> listed = parse(lists[static_cast<std::size_t>(rank)]);
    for (std::size_t i = 0; i < listed.size(); ++i) {
      const Fragment& f = listed[i];
      WholeTensor& whole = tensors[f.name];
      if (whole.values.empty()) {
        whole.shape = f.shape;
        whole.values.assign(static_cast<std::size_t>(f.shape.elements()), 0.0f);
      }
      std::vector<float> values;
      if (rank == 0) {
        values = fragments[i].values;
      } else {
        values.resize(static_cast<std::size_t>(f.rows * f.columns));
        world.start_recv(values.data(), values.size() * sizeof(float), rank, kTag).wait();
      }
      place(f, values, whole, covered[f.name]);
    }
  }
  for (const auto& [name, whole] : tensors)
    FATHOM_CHECK(covered[name] == whole.shape.elements(), name, ": fragments cover ", covered[name],
                 " of ", whole.shape.elements(), " elements");
  return tensors;
}

void append_fragments(const model::Parameter& parameter, const Tensor& local,
                      const std::string& name, std::vector<Fragment>& fragments) {
  if (!parameter.owned) return;
  const auto values = model::pieces_to_host(parameter, local);
  for (std::size_t i = 0; i < parameter.pieces.size(); ++i) {
    const model::Piece& piece = parameter.pieces[i];
    fragments.push_back(
        {name, parameter.shape, piece.row, piece.column, piece.rows, piece.columns, values[i]});
  }
}

}  // namespace fathom::train
