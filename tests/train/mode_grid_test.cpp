// Late layers that vote, beside every other method: the same micro-batches give the same loss,
// terms and gradients on every grid of this rank count as on one rank.

#include <cmath>
#include <functional>
#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "core/parameter_names.h"
#include "methods/mta/loss.h"
#include "tests/support/golden.h"
#include "tests/train/small_distillation.h"
#include "train/probe.h"
#include "train/state_losses.h"

namespace fathom::train {
namespace {

using methods::adapters::Kind;

const std::string kModel = test::golden("models/llama");

// The teacher's key/value heads: more tensor ranks would have to share one in unequal parts.
constexpr int kTeacherHeads = 3;

struct Case {
  std::string name;
  std::function<void(TrainConfig&)> set;
  bool sum = false;  ///< a running sum travels, whether or not it is fewer bytes
};

std::vector<Case> cases() {
  const auto adapter = [](Kind kind) {
    return [kind](TrainConfig& c) {
      c.adapter.spec.kind = kind;
      c.adapter.spec.rank = 3;
    };
  };
  const auto taught = [](TrainConfig& c) {
    c.teacher.path = test::golden("methods/teacher-llama");
    c.loss.kd_weight = 0.5;
  };
  const auto no_lambda = [](TrainConfig& c) { c.mode.lambda = 0; };
  return {
      {"dora", adapter(Kind::dora)},
      {"vera", adapter(Kind::vera)},
      {"loreft", adapter(Kind::loreft)},
      {"parallel_control", adapter(Kind::parallel_control)},
      {"moc",
       [](TrainConfig& c) {
         c.moc = {.enabled = true, .rank = 3, .alpha = 0.6, .top_k = 2, .balance = 0.5};
       }},
      {"light_dora",
       [=](TrainConfig& c) {
         adapter(Kind::dora)(c);
         c.mode.light = true;
       }},
      {"frozen", [](TrainConfig& c) { c.model.freeze.patterns = {"*"}; }},
      {"top2", [](TrainConfig& c) { c.mode.spec.top_k = 2; }},
      {"uniform", [](TrainConfig& c) { c.mode.spec.router = methods::mode::Router::uniform; }},
      {"rms_input",
       [](TrainConfig& c) { c.mode.spec.router_input = methods::mode::RouterInput::rms; }},
      {"no_norms", [](TrainConfig& c) { c.mode.spec.norms = methods::mode::Norms::none; }},
      {"shared_norm", [](TrainConfig& c) { c.mode.spec.norms = methods::mode::Norms::shared; }},
      {"all_layers", [](TrainConfig& c) { c.mode.spec.k = 4; }},
      {"one_layer", [](TrainConfig& c) { c.mode = {.enabled = true, .spec = {.k = 1}}; }},
      {"no_lambda", no_lambda},
      {"no_lambda_dora",
       [=](TrainConfig& c) {
         adapter(Kind::dora)(c);
         no_lambda(c);
       },
       true},
      {"no_lambda_moc",
       [=](TrainConfig& c) {
         c.moc = {.enabled = true, .rank = 3, .alpha = 0.6, .top_k = 2, .balance = 0.5};
         no_lambda(c);
       },
       true},
      {"no_lambda_frozen",
       [=](TrainConfig& c) {
         c.model.freeze.patterns = {"*"};
         no_lambda(c);
       },
       true},
      {"no_lambda_uniform",
       [=](TrainConfig& c) {
         c.mode.spec.k = 4;
         c.mode.spec.router = methods::mode::Router::uniform;
         no_lambda(c);
       },
       true},
      {"no_lambda_no_norms",
       [=](TrainConfig& c) {
         c.mode.spec.norms = methods::mode::Norms::none;
         no_lambda(c);
       },
       true},
      {"no_lambda_shared_norm",
       [=](TrainConfig& c) {
         c.mode.spec.norms = methods::mode::Norms::shared;
         no_lambda(c);
       }},
      {"no_lambda_all_layers",
       [=](TrainConfig& c) {
         c.mode.spec = {.k = 4, .top_k = 2};
         no_lambda(c);
       },
       true},
      {"no_lambda_gpt2",
       [=](TrainConfig& c) {
         c.model.path = test::golden("models/gpt2");
         no_lambda(c);
       },
       true},
      {"taught", taught},
      {"taught_no_lambda",
       [=](TrainConfig& c) {
         taught(c);
         no_lambda(c);
       },
       true},
      {"fdd",
       [=](TrainConfig& c) {
         taught(c);
         c.fdd.enabled = true;
       }},
      {"mta",
       [=](TrainConfig& c) {
         taught(c);
         c.mta.enabled = true;
         c.spans.train = "spans.h5";  // never opened: the test makes them
       }},
  };
}

// Words of two tokens, phrases of four.
std::vector<std::vector<data::spans::TokenSpans>> make_spans(
    const std::vector<data::MicroBatch>& batches) {
  std::vector<std::vector<data::spans::TokenSpans>> found;
  for (const data::MicroBatch& batch : batches) {
    found.emplace_back();
    for (std::size_t s = 1; s < batch.cu_seqlens.size(); ++s) {
      data::spans::TokenSpans spans;
      const std::int32_t length = batch.cu_seqlens[s] - batch.cu_seqlens[s - 1];
      for (std::int32_t at = 0; at + 2 <= length; at += 2) spans.words.push_back({at, at + 2});
      for (std::int32_t at = 0; at + 4 <= length; at += 4) spans.phrases.push_back({at, at + 4});
      found.back().push_back(std::move(spans));
    }
  }
  return found;
}

struct Trained {
  double loss = 0, norm = 0;
  std::vector<methods::StateTerm> terms;
  std::map<std::string, WholeTensor> gradients;  ///< on the world's rank 0
};

class ModeGrid : public ::testing::TestWithParam<comm::GridShape> {
 protected:
  static TrainConfig config(const Case& tried, const comm::GridShape& grid) {
    TrainConfig config;
    config.model.path = kModel;
    config.mode = {.enabled = true, .spec = {.k = 3}, .lambda = 0.7, .temperature = 1.5};
    config.grid.tp = grid.tp;
    config.grid.pp = grid.pp;
    config.grid.dp = grid.dp;
    config.loss.chunk_rows = 16;
    tried.set(config);
    EXPECT_TRUE(engine_violations(config).empty()) << tried.name;
    return config;
  }

  // Rows of the golden batch as four unlike micro-batches; the third has nothing to learn from.
  static std::vector<data::MicroBatch> micro_batches() {
    const PaddedBatch batch = read_padded_batch(kModel + "/inputs.safetensors");
    const data::MicroBatch whole = data::from_padded(batch.ids, batch.mask, batch.labels,
                                                     batch.rows, batch.length, small::kVocab);
    std::vector<data::MicroBatch> all = {data::slice(whole, 0, 2), data::slice(whole, 2, 3),
                                         data::slice(whole, 1, 2), data::slice(whole, 1, 3)};
    std::fill(all[2].labels.begin(), all[2].labels.end(), data::kNoLabel);
    all[2].label_tokens = 0;
    return all;
  }

  // What starts as zero does something: B of adapters and controls, and the router.
  static void disturb(Engine& engine) {
    for (const model::Parameter& parameter : engine.student().parameters().parameters()) {
      const bool starts_elsewhere = parameter.name.find("rotate") != std::string::npos ||
                                    parameter.name.find("magnitude") != std::string::npos ||
                                    parameter.name.find("mode.norm") != std::string::npos;
      if (!is_method_parameter(parameter.name) || !parameter.trainable() || starts_elsewhere)
        continue;
      model::Parameter random = parameter;
      random.init_std = random.init_value = 0;
      random.init_bound = 0.3;
      for (const model::Piece& piece : parameter.pieces) {
        std::vector<float> values(static_cast<std::size_t>(piece.rows * piece.columns));
        model::RandomWeights(5).read(random, piece, values.data());
        model::piece_from_host(parameter, parameter.value, piece, values);
      }
    }
    engine.weights_changed();
  }

  Engine::Losses losses(comm::ProcessGrid& grid, const TrainConfig& config,
                        const EnginePlan& plan) {
    if (!config.mta.enabled) return make_state_losses(*device_, grid, config, plan, nullptr);
    methods::mta::Settings settings{
        .layers = plan.mta_layers,
        .levels = methods::mta::levels(config.mta.granularity, 0, plan.mta_layers.size()),
        .dsa_weight = config.mta.dsa_weight,
        .hid_weight = config.mta.hid_weight,
        .student_width = plan.student.hidden,
        .teacher_width = plan.teacher->hidden};
    Engine::Losses made;
    made.push_back(std::make_unique<methods::mta::MtaLoss>(*device_, grid.dp(), settings,
                                                           make_spans, grid.is_first_stage()));
    return made;
  }

  Trained train(comm::Communicator& world, const Case& tried, const comm::GridShape& shape) {
    comm::ProcessGrid grid(world, shape, *device_);
    const TrainConfig asked = config(tried, shape);
    EnginePlan plan = make_engine_plan(asked);
    if (tried.sum && shape.pp > 1) plan.vote_transport = methods::mode::Transport::mixture;
    // By its cost: H_1 and H_2 would travel three times, over four stages of a layer each.
    if (tried.name == "no_lambda") {
      EXPECT_EQ(plan.vote_transport == methods::mode::Transport::mixture, shape.pp == 4);
    }
    Engine engine(*device_, grid, asked, plan, true, losses(grid, asked, plan));
    engine.load_initial_weights();
    disturb(engine);
    data::BatchCounts counts;
    const auto all = micro_batches();
    for (const data::MicroBatch& batch : all) counts += data::count(batch);
    const data::Share share = data::share_of(4, grid.place().dp, shape.dp);
    std::vector<data::MicroBatch> slots(static_cast<std::size_t>(share.slots));
    for (std::int64_t j = share.begin; j < share.end; ++j)
      slots[static_cast<std::size_t>(j - share.begin)] = all[static_cast<std::size_t>(j)];
    Trained result;
    result.loss = engine.forward_backward(std::move(slots), data::RoleCounts(counts), 0).objective;
    result.terms = engine.state_terms();
    result.norm = engine.optimizer().gradient_norm(grid);
    std::vector<Fragment> fragments;
    if (grid.place().dp == 0)
      for (const model::Parameter& parameter : engine.student().parameters().parameters())
        if (parameter.trainable())
          append_fragments(parameter, parameter.grad(), parameter.name, fragments);
    result.gradients = collect(world, fragments);
    return result;
  }

  // Of one rank, made once for each case.
  const Trained& alone(const Case& tried) {
    static std::map<std::string, Trained> made;
    if (made.count(tried.name) == 0) {
      const auto self = comm::self_communicator();
      made[tried.name] = train(*self, tried, {});
    }
    return made.at(tried.name);
  }

  static void compare(const Trained& here, const Trained& one) {
    EXPECT_NEAR(here.loss, one.loss, 1e-5 * one.loss);
    EXPECT_NEAR(here.norm, one.norm, 1e-5 * one.norm);
    ASSERT_EQ(here.terms.size(), one.terms.size());
    for (std::size_t i = 0; i < one.terms.size(); ++i) {
      EXPECT_EQ(here.terms[i].name, one.terms[i].name);
      EXPECT_NEAR(here.terms[i].sum / std::max(1.0, here.terms[i].count),
                  one.terms[i].sum / std::max(1.0, one.terms[i].count),
                  1e-5 * (1 + std::abs(one.terms[i].sum)))
          << one.terms[i].name;
    }
    if (test::world().rank() != 0) return;
    ASSERT_EQ(here.gradients.size(), one.gradients.size());
    for (const auto& [name, tensor] : one.gradients) {
      EXPECT_LT(test::distance(here.gradients.at(name).values, tensor.values),
                1e-5 * test::norm(tensor.values) + 1e-6 * one.norm)
          << name;
    }
  }

  std::unique_ptr<Device> device_ = test::make_device(std::size_t{1} << 28);
};

TEST_P(ModeGrid, SameLossTermsAndGradientsAsOnOneRank) {
  for (const Case& tried : cases()) {
    SCOPED_TRACE(tried.name);
    if (tried.name.starts_with("taught") || tried.name == "fdd" || tried.name == "mta")
      if (GetParam().tp > kTeacherHeads) continue;
    compare(train(test::world(), tried, GetParam()), alone(tried));
  }
}

INSTANTIATE_TEST_SUITE_P(AllGrids, ModeGrid,
                         ::testing::ValuesIn(small::grids(small::launched_ranks())),
                         [](const auto& grid) { return small::name_of(grid.param); });

}  // namespace
}  // namespace fathom::train
