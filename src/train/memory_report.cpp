#include "train/memory_report.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <set>
#include <sstream>

#include "checkpoints/gather.h"

namespace fathom::train {
namespace {

// "operation bytes" lines of this rank.
std::string own_bytes(Engine& engine) {
  std::ostringstream out;
  for (const auto& [operation, bytes] : engine.work().saved_bytes())
    if (bytes > 0) out << operation << ' ' << bytes << '\n';
  return out.str();
}

std::string bytes_table(const std::vector<std::string>& ranks) {
  std::map<std::string, std::vector<std::size_t>> rows;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::istringstream in(ranks[rank]);
    std::string operation;
    std::size_t bytes = 0;
    while (in >> operation >> bytes) {
      rows[operation].resize(ranks.size());
      rows[operation][rank] = bytes;
    }
  }
  std::vector<std::size_t> totals(ranks.size());
  std::ostringstream out;
  const auto line = [&](const std::string& name, const auto& values) {
    out << std::left << std::setw(14) << name << std::right;
    for (const auto& value : values) out << std::setw(14) << value;
    out << '\n';
  };
  std::vector<std::string> heads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    heads.push_back("rank " + std::to_string(rank));
  out << "bytes kept for the backward pass of one micro-batch, by operation:\n";
  line("operation", heads);
  for (const auto& [operation, values] : rows) {
    line(operation, values);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) totals[rank] += values[rank];
  }
  line("total", totals);
  return out.str();
}

struct Entry {
  std::string shape;
  bool trained = false;
  std::set<int> stages, tensor_ranks;
  std::int64_t elements = 0;
};

// "name shape trained elements" lines of what this rank owns; replicas own the same.
std::string own_parameters(Engine& engine) {
  std::ostringstream out;
  if (engine.grid().place().dp != 0) return "";
  for (const model::Parameter& parameter : engine.student().parameters().parameters()) {
    if (!parameter.owned) continue;
    std::string shape;
    for (int d = 0; d < parameter.shape.dims(); ++d)
      shape += (d > 0 ? "x" : "") + std::to_string(parameter.shape[d]);
    out << parameter.name << ' ' << shape << ' ' << parameter.trainable() << ' '
        << parameter.value.elements() << ' ' << engine.grid().place().pp << ' '
        << engine.grid().place().tp << '\n';
  }
  return out.str();
}

std::string list(const std::set<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

std::string parameter_table(const std::vector<std::string>& ranks) {
  std::vector<std::string> order;
  std::map<std::string, Entry> entries;
  for (const std::string& text : ranks) {
    std::istringstream in(text);
    std::string name, shape;
    bool trained = false;
    std::int64_t elements = 0;
    int stage = 0, tp = 0;
    while (in >> name >> shape >> trained >> elements >> stage >> tp) {
      if (entries.count(name) == 0) order.push_back(name);
      Entry& entry = entries[name];
      entry.shape = shape;
      entry.trained = trained;
      entry.elements += elements;
      entry.stages.insert(stage);
      entry.tensor_ranks.insert(tp);
    }
  }
  std::size_t width = 9;
  std::int64_t trained = 0, all = 0;
  for (const std::string& name : order) width = std::max(width, name.size());
  std::ostringstream out;
  out << "\nparameters, and the stage and tensor ranks that own them:\n"
      << std::left << std::setw(static_cast<int>(width)) << "parameter" << std::setw(16)
      << "  shape" << std::setw(10) << "trained" << std::setw(7) << "stage"
      << "tensor ranks\n";
  for (const std::string& name : order) {
    const Entry& entry = entries.at(name);
    out << std::setw(static_cast<int>(width)) << name << "  " << std::setw(14) << entry.shape
        << std::setw(10) << (entry.trained ? "yes" : "no") << std::setw(7) << list(entry.stages)
        << list(entry.tensor_ranks) << '\n';
    all += entry.elements;
    if (entry.trained) trained += entry.elements;
  }
  out << trained << " of " << all << " parameters are trained, " << std::fixed
      << std::setprecision(3) << 100.0 * static_cast<double>(trained) / static_cast<double>(all)
      << " %\n";
  return out.str();
}

}  // namespace

std::string memory_report(Engine& engine) {
  comm::Communicator& world = engine.grid().world();
  const std::vector<std::string> bytes = checkpoints::gather_texts(world, own_bytes(engine));
  const std::vector<std::string> owned = checkpoints::gather_texts(world, own_parameters(engine));
  return world.rank() == 0 ? bytes_table(bytes) + parameter_table(owned) : "";
}

}  // namespace fathom::train
