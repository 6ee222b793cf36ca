// What is learnt from a micro-batch is decided by its role, and every term of the loss has its own
// denominator, however the step is cut into micro-batches and laid out on a grid.

#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "tests/train/small_distillation.h"
#include "train/batch_source.h"
#include "train/engine.h"

namespace fathom::train {
namespace {

using data::Role;

constexpr Role kAll[] = {Role::dataset, Role::student_text, Role::corpus, Role::chosen,
                         Role::rejected};

struct Result {
  double objective = 0, gradient_norm = 0;
  RoleSums sums;
  std::vector<methods::StateTerm> terms;
};

class Roles : public ::testing::TestWithParam<comm::GridShape> {
 protected:
  static void SetUpTestSuite() {
    files_ = new testing::SharedDirectory(test::world(), [](const std::filesystem::path& folder) {
      small::write_models(folder);
      testing::write_tokens(folder / "tokens.h5", 60, 2, 40, small::kVocab, 3);
    });
    set_ = new data::Dataset(
        std::make_shared<const data::TokenFile>(data::TokenFile::open(*files_ / "tokens.h5")), 64,
        data::Overlong::refuse);
  }
  static void TearDownTestSuite() {
    test::world().barrier();
    delete set_;
    delete files_;
  }

  static TrainConfig config(const comm::GridShape& grid = {}) {
    TrainConfig config = small::config(files_->path(), grid);
    config.dropout = {};
    config.loss.ce_weight = 0.75;
    config.loss.kd_weight = 0.5;
    config.loss.temperature = 1.5;
    config.loss.corpus_weight = 0.3;
    config.loss.rejected_weight = 0.8;
    return config;
  }

  /// The first 12 records for each of the roles, in micro-batches of `size` sequences.
  static std::vector<data::MicroBatch> cut(std::initializer_list<Role> roles, std::int64_t size) {
    std::vector<data::MicroBatch> batches;
    std::int64_t record = 0;
    for (const Role role : roles)
      for (std::int64_t i = 0; i < 12; ++i, ++record) {
        if (i % size == 0) batches.emplace_back().role = role;
        data::append(batches.back(), set_->record(record), record, record);
      }
    return batches;
  }

  static Result run(comm::Communicator& world, const TrainConfig& config,
                    const std::vector<data::MicroBatch>& batches,
                    std::optional<methods::distill::ReferenceGaps> gaps = std::nullopt) {
    const auto device =
        test::make_test_device(std::size_t{1} << 28, test::world().rank(), world.size());
    comm::ProcessGrid grid(
        world, {.dp = config.grid.dp, .pp = config.grid.pp, .tp = config.grid.tp}, *device);
    Engine engine(*device, grid, config, make_engine_plan(config), true);
    engine.load_initial_weights();
    data::RoleCounts counts;
    for (const data::MicroBatch& batch : batches) counts[batch.role] += data::count(batch);
    const auto make = [&](std::int64_t j) { return batches[static_cast<std::size_t>(j)]; };
    if (gaps) engine.row_alpha()->restore(*gaps);
    auto slots = fill_slots(static_cast<std::int64_t>(batches.size()), grid, make);
    Result result;
    result.objective = engine.forward_backward(std::move(slots), counts, 0).objective;
    result.terms = engine.state_terms();
    result.gradient_norm = engine.optimizer().gradient_norm(grid);
    result.sums = engine.role_sums();
    return result;
  }
  static Result run_alone(const TrainConfig& config, const std::vector<data::MicroBatch>& batches,
                          std::optional<methods::distill::ReferenceGaps> gaps = std::nullopt) {
    const auto self = comm::self_communicator();
    return run(*self, config, batches, gaps);
  }

  inline static testing::SharedDirectory* files_ = nullptr;
  inline static data::Dataset* set_ = nullptr;
};

// Sums over the same tokens in another order: some roundings of f32.
void expect_same(const Result& actual, const Result& expected) {
  EXPECT_NEAR(actual.objective, expected.objective, 2e-6 * expected.objective);
  EXPECT_NEAR(actual.gradient_norm, expected.gradient_norm, 1e-5 * expected.gradient_norm);
  for (const Role role : kAll) {
    const model::LossSums &a = actual.sums[role], &e = expected.sums[role];
    EXPECT_EQ(a.tokens, e.tokens);
    EXPECT_NEAR(a.cross_entropy, e.cross_entropy, 2e-6 * e.cross_entropy);
    EXPECT_NEAR(a.divergence, e.divergence, 1e-5 * e.divergence);
    EXPECT_NEAR(a.objective, e.objective, 1e-5 * e.objective);
  }
}

TEST_P(Roles, NeitherTheGridNorTheCutChangesALoss) {
  for (const auto roles :
       {std::initializer_list<Role>{Role::dataset, Role::student_text, Role::corpus},
        {Role::chosen, Role::rejected}}) {
    const Result expected = run_alone(config(), cut(roles, 12));
    for (const std::int64_t size : {1, 4, 6, 12}) {
      SCOPED_TRACE("micro-batches of " + std::to_string(size));
      expect_same(run(test::world(), config(GetParam()), cut(roles, size)), expected);
    }
  }
}

TEST_P(Roles, SequencesMayCountAlike) {
  TrainConfig alone = config(), spread = config(GetParam());
  for (TrainConfig* each : {&alone, &spread}) each->loss.normalise = Normalise::sequences;
  const auto roles = {Role::dataset, Role::student_text, Role::corpus};
  const Result expected = run_alone(alone, cut(roles, 12));
  for (const std::int64_t size : {1, 6})
    expect_same(run(test::world(), spread, cut(roles, size)), expected);
}

// A first step says what is close, and a later one has an alpha for each answer: the larger where
// the writer finds it less likely than the other model does.
TEST_P(Roles, NeitherTheGridNorTheCutChangesTheCurriculum) {
  TrainConfig alone = config(), spread = config(GetParam());
  for (TrainConfig* each : {&alone, &spread}) each->distill.curriculum = true;
  const auto roles = {Role::chosen, Role::rejected};
  const methods::distill::ReferenceGaps wide{1, 1};
  const Result first = run_alone(alone, cut(roles, 12));
  expect_same(first, run_alone(config(), cut(roles, 12)));
  const Result later = run_alone(alone, cut(roles, 12), wide);
  EXPECT_GT(std::abs(later.objective - first.objective), 1e-3 * first.objective);
  for (const auto& [size, gaps] : {std::pair{4, std::optional<methods::distill::ReferenceGaps>()},
                                   std::pair{1, std::optional(wide)}}) {
    const Result& expected = gaps ? later : first;
    const Result result = run(test::world(), spread, cut(roles, size), gaps);
    expect_same(result, expected);
    ASSERT_EQ(result.terms.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(result.terms[i].count, 12);
      // Gaps are differences of probabilities of about 1 / 503, whose roundings remain.
      EXPECT_NEAR(result.terms[i].sum, expected.terms[i].sum, 12 * 5e-6 / 503)
          << result.terms[i].name;
    }
  }
  EXPECT_GT(later.terms[0].sum, 12 * 0.011);  // alphas of 0.01 and of 0.1
  EXPECT_LT(later.terms[0].sum, 12 * 0.099);
}

// The student's own text: no cross-entropy on it, to the last bit.
TEST_P(Roles, StudentTextAddsNoCrossEntropy) {
  TrainConfig with = config(GetParam()), without = with;
  without.loss.ce_weight = 0;
  const auto batches = cut({Role::student_text}, 3);
  const Result a = run(test::world(), with, batches), b = run(test::world(), without, batches);
  EXPECT_EQ(a.objective, b.objective);
  EXPECT_EQ(a.gradient_norm, b.gradient_norm);
  EXPECT_GT(a.gradient_norm, 0);
  with.loss.kd_weight = 0;
  const Result nothing = run(test::world(), with, batches);
  EXPECT_EQ(nothing.objective, 0);
  EXPECT_EQ(nothing.gradient_norm, 0);
}

/// Sums and counts of single sequences: what the definitions below are put together from.
struct Parts {
  double cross_entropy = 0, divergence = 0, tokens = 0, mean_divergence = 0;
};

// The objective, put together by hand from sequences that were run one by one.
TEST_P(Roles, ObjectiveIsTheSumOfItsTermsOverTheirOwnCounts) {
  const TrainConfig each = config(GetParam());
  std::map<Role, Parts> parts;
  for (const data::MicroBatch& batch : cut({kAll[0], kAll[1], kAll[2], kAll[3], kAll[4]}, 1)) {
    const auto sums = run_alone(config(), {batch}).sums[batch.role];
    const auto tokens = static_cast<double>(batch.label_tokens);
    Parts& of = parts[batch.role];
    of.cross_entropy += sums.cross_entropy;
    of.divergence += sums.divergence;
    of.tokens += tokens;
    of.mean_divergence += sums.divergence / tokens / 12;
  }
  const LossConfig& loss = each.loss;
  const double t2 = loss.temperature * loss.temperature;
  const Parts &dataset = parts[Role::dataset], &own = parts[Role::student_text];
  const double expected =
      loss.ce_weight * dataset.cross_entropy / dataset.tokens +
      loss.kd_weight * t2 * (dataset.divergence + own.divergence) / (dataset.tokens + own.tokens) +
      loss.corpus_weight * parts[Role::corpus].cross_entropy / parts[Role::corpus].tokens +
      loss.kd_weight * t2 * 1.2 * parts[Role::chosen].mean_divergence +
      loss.kd_weight * t2 * 0.8 * parts[Role::rejected].mean_divergence;
  const Result result =
      run(test::world(), each, cut({kAll[0], kAll[1], kAll[2], kAll[3], kAll[4]}, 3));
  EXPECT_NEAR(result.objective, expected, 5e-6 * expected);
  EXPECT_EQ(result.sums[Role::corpus].divergence, 0);
}

std::string name_of(const ::testing::TestParamInfo<comm::GridShape>& info) {
  return small::name_of(info.param);
}

INSTANTIATE_TEST_SUITE_P(Grids, Roles, ::testing::ValuesIn(small::grids(small::launched_ranks())),
                         name_of);

}  // namespace
}  // namespace fathom::train
