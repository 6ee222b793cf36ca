#include "comm/process_grid.h"

#include "core/error.h"
#include "kernels/backend.h"

namespace fathom::comm {
namespace {

/// The groups along one axis: ranks that agree in the other two coordinates, which `color` packs.
std::unique_ptr<Communicator> split_axis(Communicator& world, int GridCoordinates::*axis,
                                         const GridShape& shape, const GridCoordinates& place) {
  GridCoordinates first_of_group = place;
  first_of_group.*axis = 0;
  return world.split(rank_of(shape, first_of_group), place.*axis);
}

}  // namespace

ProcessGrid::ProcessGrid(Communicator& world, const GridShape& shape, Device& device)
    : ProcessGrid(world, shape, &device) {}

ProcessGrid::ProcessGrid(Communicator& world, const GridShape& shape)
    : ProcessGrid(world, shape, nullptr) {
  FATHOM_CHECK(!kernels::backend().owns_memory, "a grid of devices was not told of this one");
}

ProcessGrid::ProcessGrid(Communicator& world, const GridShape& shape, Device* device)
    : world_(world), shape_(shape), device_(device) {
  validate(shape);
  require(world.size() == shape.ranks(), ErrorKind::config, "the process grid ", to_string(shape),
          " needs ", shape.ranks(), " ranks but ", world.size(), " are running");
  place_ = coordinates_of(shape, world.rank());
  tp_ = split_axis(world, &GridCoordinates::tp, shape, place_);
  pp_ = split_axis(world, &GridCoordinates::pp, shape, place_);
  dp_ = split_axis(world, &GridCoordinates::dp, shape, place_);
  const bool has_end = shape.pp > 1 && (is_first_stage() || is_last_stage());
  first_last_ = pp_->split(has_end ? 0 : -1, place_.pp);

  // Devices meet in one order on all ranks, all before the first step: bundles cross stages, the
  // other axes only reduce and gather.
  tp_ = on_devices(std::move(tp_), DeviceTraffic::collectives);
  pp_ = on_devices(std::move(pp_), DeviceTraffic::messages_too);
  dp_ = on_devices(std::move(dp_), DeviceTraffic::collectives);
  first_last_ = on_devices(std::move(first_last_), DeviceTraffic::collectives);
}

std::unique_ptr<Communicator> ProcessGrid::on_devices(std::unique_ptr<Communicator> group,
                                                      DeviceTraffic traffic) const {
  return device_ == nullptr ? std::move(group)
                            : comm::on_devices(std::move(group), *device_, traffic);
}

std::unique_ptr<Communicator> ProcessGrid::make_kv_replica_group(int kv_heads) {
  const int replicas = place_kv_heads(shape_.tp, kv_heads).replicas;
  return tp_->split(place_.tp / replicas, place_.tp);
}

}  // namespace fathom::comm
