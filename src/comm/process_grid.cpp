#include "comm/process_grid.h"

#include "core/error.h"

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

ProcessGrid::ProcessGrid(Communicator& world, const GridShape& shape)
    : world_(world), shape_(shape) {
  validate(shape);
  require(world.size() == shape.ranks(), ErrorKind::config, "the process grid ", to_string(shape),
          " needs ", shape.ranks(), " ranks but ", world.size(), " are running");
  place_ = coordinates_of(shape, world.rank());
  tp_ = split_axis(world, &GridCoordinates::tp, shape, place_);
  pp_ = split_axis(world, &GridCoordinates::pp, shape, place_);
  dp_ = split_axis(world, &GridCoordinates::dp, shape, place_);
  const bool has_end = shape.pp > 1 && (is_first_stage() || is_last_stage());
  first_last_ = pp_->split(has_end ? 0 : -1, place_.pp);
}

std::unique_ptr<Communicator> ProcessGrid::make_kv_replica_group(int kv_heads) {
  const int replicas = place_kv_heads(shape_.tp, kv_heads).replicas;
  return tp_->split(place_.tp / replicas, place_.tp);
}

}  // namespace fathom::comm
