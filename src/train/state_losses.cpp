#include "train/state_losses.h"

#include "methods/distill/fdd_loss.h"
#include "methods/key_sites.h"
#include "train/mode_transport.h"

namespace fathom::train {
namespace {

methods::mta::Settings mta_settings(const TrainConfig& config, const EnginePlan& plan) {
  const MtaConfig& mta = config.mta;
  return {.layers = plan.mta_layers,
          .levels = methods::mta::levels(mta.granularity, mta.words, plan.mta_layers.size()),
          .normalise = mta.normalise,
          .region = mta.span_region,
          .dsa_weight = mta.dsa_weight,
          .hid_weight = mta.hid_weight,
          .student_width = plan.student.hidden,
          .teacher_width = plan.teacher->hidden,
          .lr_scale = mta.projector_lr > 0 ? mta.projector_lr / config.optim.lr : 1.0};
}

methods::distill::FddSettings fdd_settings(const TrainConfig& config, const EnginePlan& plan) {
  const FddConfig& fdd = config.fdd;
  return {.layers = plan.fdd_layers,
          .trajectory_weight = fdd.trajectory_weight,
          .derivative_weight = fdd.derivative_weight,
          .temperature = static_cast<float>(fdd.temperature),
          .chunk_rows = fdd_chunk_rows(plan, config.grid)};
}

}  // namespace

Engine::Losses make_state_losses(Device& device, comm::ProcessGrid& grid, const TrainConfig& config,
                                 const EnginePlan& plan, methods::mta::SpansOf spans_of) {
  Engine::Losses losses;
  if (!plan.mta_layers.empty()) {
    FATHOM_CHECK(static_cast<bool>(spans_of), "MTA without spans");
    losses.push_back(std::make_unique<methods::mta::MtaLoss>(
        device, grid.dp(), mta_settings(config, plan), std::move(spans_of), grid.is_first_stage()));
  }
  if (!plan.fdd_layers.empty())
    losses.push_back(
        std::make_unique<methods::distill::FddLoss>(grid.dp(), fdd_settings(config, plan)));
  return losses;
}

std::vector<methods::Site> state_sites(const EnginePlan& plan) {
  std::vector<methods::Site> sites = methods::pair_sites(plan.mta_layers);
  if (!plan.fdd_layers.empty()) sites.push_back(methods::head_site(plan.fdd_layers));
  if (plan.mode)
    for (methods::Site& site : vote_sites(plan)) sites.push_back(std::move(site));
  return sites;
}

StateRoutes state_routes(const EnginePlan& plan) {
  return StateRoutes(plan.student_layers, plan.teacher_layers ? &*plan.teacher_layers : nullptr,
                     state_sites(plan));
}

std::int64_t fdd_chunk_rows(const EnginePlan& plan, const GridConfig& grid) {
  return default_chunk_rows(std::max<std::int64_t>(1, plan.loss_vocab / grid.tp),
                            2 * static_cast<int>(plan.fdd_layers.size()));
}

}  // namespace fathom::train
