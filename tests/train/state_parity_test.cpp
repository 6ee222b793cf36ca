// MTA on top of forward KL, and FDD, as PyTorch computed them, on every grid of this rank count:
// the terms, all gradients and three AdamW steps, the projectors' included.

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../mpi_main.h"
#include "checkpoints/safetensors.h"
#include "core/parameter_names.h"
#include "methods/distill/fdd_loss.h"
#include "methods/mta/loss.h"
#include "tests/support/golden.h"
#include "tests/train/small_distillation.h"
#include "train/probe.h"

namespace fathom::train {
namespace {

using checkpoints::SafetensorsReader;
using nlohmann::json;

std::vector<methods::KeyLayer> layers_of(const json& options) {
  std::vector<methods::KeyLayer> layers;
  for (const auto& pair : options.at("key_layers"))
    layers.push_back({pair.at(0).get<int>(), pair.at(1).get<int>()});
  return layers;
}

methods::mta::Settings settings_of(const json& options) {
  methods::mta::Settings settings;
  settings.layers = layers_of(options);
  for (const auto& level : options.at("levels"))
    settings.levels.push_back(level == "word" ? methods::mta::Level::words
                                              : methods::mta::Level::phrases);
  settings.dsa_weight = options.at("lambda_dsa");
  settings.hid_weight = options.at("lambda_hid");
  return settings;
}

data::spans::TokenSpans spans_of(const json& spans, const data::MicroBatch& batch,
                                 std::int64_t sequence) {
  const auto row = static_cast<std::size_t>(batch.sample_index[static_cast<std::size_t>(sequence)]);
  data::spans::TokenSpans found;
  for (const auto& span : spans.at("word").at(row))
    found.words.push_back({span.at(0).get<int>(), span.at(1).get<int>()});
  for (const auto& span : spans.at("phrase").at(row))
    found.phrases.push_back({span.at(0).get<int>(), span.at(1).get<int>()});
  return found;
}

// The teacher's key/value heads: more tensor ranks would have to share one in unequal parts.
constexpr int kTeacherHeads = 3;

struct Case {
  std::string name;
  comm::GridShape grid;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* name : {"mta-llama", "mta-llama-words", "fdd-llama"})
    for (const comm::GridShape& grid : small::grids(small::launched_ranks()))
      if (grid.tp <= kTeacherHeads) all.push_back({name, grid});
  return all;
}

class StateParity : public ::testing::TestWithParam<Case> {
 protected:
  StateParity()
      : folder_(test::golden("methods/" + GetParam().name)),
        device_(test::make_device(std::size_t{1} << 28)),
        grid_(test::world(), GetParam().grid, *device_) {
    std::ifstream(folder_ + "/expected.json") >> expected_;
    TrainConfig config;
    config.model.path = test::golden("models/llama");
    config.teacher.path = test::golden("methods/teacher-llama");
    config.grid.tp = GetParam().grid.tp;
    config.grid.pp = GetParam().grid.pp;
    config.grid.dp = GetParam().grid.dp;
    config.loss.ce_weight = 0;
    config.loss.kd_weight = is_mta() ? 1 : 0;
    config.loss.chunk_rows = 16;
    config.optim = {
        .lr = 1e-3, .beta2 = 0.95, .weight_decay = 0.1, .decay = Decay::all, .clip = 1.0};
    const EnginePlan plan = make_engine_plan(config);
    Engine::Losses losses;
    losses.push_back(is_mta() ? make_mta(plan) : make_fdd());
    engine_ = std::make_unique<Engine>(*device_, grid_, config, plan, true, std::move(losses));
    engine_->load_initial_weights();
    if (is_mta()) load_projectors();
    batch_ = read_padded_batch(config.model.path + "/inputs.safetensors");
    config_ = config;
  }

  bool is_mta() const { return GetParam().name != "fdd-llama"; }

  std::unique_ptr<methods::StateLoss> make_mta(const EnginePlan& plan) {
    methods::mta::Settings settings = settings_of(expected_.at("options"));
    settings.student_width = plan.student.hidden;
    settings.teacher_width = plan.teacher->hidden;
    const json& spans = expected_.at("options").at("spans");
    return std::make_unique<methods::mta::MtaLoss>(
        *device_, grid_.dp(), settings,
        [spans](const std::vector<data::MicroBatch>& batches) {
          std::vector<std::vector<data::spans::TokenSpans>> found;
          for (const data::MicroBatch& batch : batches) {
            found.emplace_back();
            for (std::int64_t s = 0; s < batch.sequences(); ++s)
              found.back().push_back(spans_of(spans, batch, s));
          }
          return found;
        },
        grid_.is_first_stage());
  }

  std::unique_ptr<methods::StateLoss> make_fdd() {
    const json& options = expected_.at("options");
    methods::distill::FddSettings settings{.layers = layers_of(options),
                                           .trajectory_weight = 1,
                                           .derivative_weight = 1,
                                           .temperature = options.at("temperature"),
                                           .chunk_rows = 16};
    return std::make_unique<methods::distill::FddLoss>(grid_.dp(), settings);
  }

  // The golden projector k belongs to the k-th key layer; ours is named after the student's layer.
  void load_projectors() {
    const auto layers = layers_of(expected_.at("options"));
    const SafetensorsReader reader(folder_ + "/params.safetensors");
    for (std::size_t k = 0; k < layers.size(); ++k)
      for (const char* part : {".weight", ".bias"}) {
        const std::string ours = std::string(kMethodPrefix) + "mta.projector." +
                                 std::to_string(layers[k].student) + part;
        const std::string golden = "projector." + std::to_string(k) + part;
        golden_names_["grad." + ours] = "grad." + golden;
        const model::Parameter* parameter = engine_->student().parameters().find(ours);
        if (parameter != nullptr)
          model::piece_from_host(*parameter, parameter->value, parameter->pieces.front(),
                                 reader.read_f32(golden));
      }
  }

  data::RoleCounts counts() const {
    return data::RoleCounts(data::count(
        data::from_padded(batch_.ids, batch_.mask, batch_.labels, batch_.rows, batch_.length,
                          static_cast<std::int32_t>(engine_->student().spec().vocab))));
  }

  double term(const std::string& name) const {
    for (const methods::StateTerm& term : engine_->state_terms())
      if (term.name == name) return term.sum / term.count;
    ADD_FAILURE() << "no term " << name;
    return 0;
  }

  double total(const model::LossSums& sums) const {
    double loss = is_mta() ? sums.divergence / static_cast<double>(sums.tokens) : 0;
    for (const methods::StateTerm& term : engine_->state_terms())
      loss += term.weight * term.sum / term.count;
    return loss;
  }

  std::string folder_;
  json expected_;
  std::unique_ptr<Device> device_;
  comm::ProcessGrid grid_;
  TrainConfig config_;
  std::unique_ptr<Engine> engine_;
  std::map<std::string, std::string> golden_names_;
  PaddedBatch batch_;
};

TEST_P(StateParity, TermsAndGradients) {
  const ProbeResult result = probe(*engine_, batch_, true);
  const json& terms = expected_.at("terms");
  const std::string prefix = is_mta() ? "mta_" : "fdd_";
  for (const auto& [name, value] : terms.items()) {
    if (name == "base") continue;
    EXPECT_NEAR(term(prefix + name), value.get<double>(), 2e-5 * value.get<double>()) << name;
  }
  const double loss = expected_.at("loss");
  EXPECT_NEAR(total(result.sums), loss, 2e-5 * loss);
  const double gradient_norm = expected_.at("grad_norm");
  EXPECT_NEAR(engine_->optimizer().gradient_norm(grid_), gradient_norm, 2e-4 * gradient_norm);
  if (test::world().rank() != 0) return;
  const SafetensorsReader gradients(folder_ + "/grads.safetensors");
  int compared = 0;
  for (const auto& [name, tensor] : result.tensors) {
    if (name.compare(0, 5, "grad.") != 0) continue;
    const auto renamed = golden_names_.find(name);
    const std::string golden =
        renamed != golden_names_.end() ? renamed->second : "grad.student." + name.substr(5);
    const std::vector<float> theirs = gradients.read_f32(golden);
    EXPECT_LT(test::distance(tensor.values, theirs),
              2e-3 * test::norm(theirs) + 1e-6 * gradient_norm)
        << name;
    ++compared;
  }
  EXPECT_EQ(compared, static_cast<int>(gradients.tensors().size()));
}

TEST_P(StateParity, ThreeAdamWSteps) {
  const json& train = expected_.at("train");
  const std::int64_t vocab = engine_->student().spec().vocab;
  for (std::size_t step = 0; step <= 3; ++step) {
    const auto sums = engine_->forward_backward(rows_of_rank(batch_, grid_, vocab), counts(),
                                                static_cast<std::int64_t>(step));
    const double expected = train.at("losses").at(step);
    EXPECT_NEAR(total(sums), expected, 2e-4 * expected) << step;
    if (step == 3) break;
    const double gradient_norm = engine_->optimizer().gradient_norm(grid_);
    const double expected_norm = train.at("grad_norms").at(step);
    EXPECT_NEAR(gradient_norm, expected_norm, 2e-3 * expected_norm) << step;
    engine_->optimizer().step(config_.optim.lr, clip_factor(gradient_norm, config_.optim.clip));
  }
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name + "_" + small::name_of(info.param.grid);
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(AllGrids, StateParity, ::testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace fathom::train
