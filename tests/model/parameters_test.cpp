// Which rectangle of which parameter lies where, and that values do not depend on it.

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>

#include "model/family.h"
#include "model/weights.h"
#include "model_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_device.h"

namespace fathom::test {
namespace {

using fathom::testing::expect_error;
using model::ModelSpec;
using model::Parameter;
using model::Piece;
using model::Stage;

constexpr std::size_t kMemory = std::size_t{64} << 20;

bool all(const std::string&) {
  return true;
}

std::int64_t width(const Parameter& parameter) {
  return parameter.shape.dims() == 2 ? parameter.shape[1] : 1;
}

// A model put together from the stages of a grid: how often each element has an owner, and the
// values of all holders.
struct Whole {
  Shape shape;
  std::vector<int> owners;
  std::vector<float> values;
  std::vector<bool> seen;
};

// Calls visit(index in the whole parameter, index in the host values) for a piece's elements.
template <typename Visit>
void for_each_element(const Parameter& parameter, const Piece& piece, Visit visit) {
  ASSERT_LE(piece.row + piece.rows, parameter.shape[0]) << parameter.name;
  ASSERT_LE(piece.column + piece.columns, width(parameter)) << parameter.name;
  for (std::int64_t r = 0; r < piece.rows; ++r)
    for (std::int64_t c = 0; c < piece.columns; ++c)
      visit(static_cast<std::size_t>((piece.row + r) * width(parameter) + piece.column + c),
            static_cast<std::size_t>(r * piece.columns + c));
}

void add_to(std::map<std::string, Whole>& wholes, const Parameter& parameter) {
  Whole& whole = wholes[parameter.name];
  const auto size = static_cast<std::size_t>(parameter.shape.elements());
  if (whole.owners.empty())
    whole = {parameter.shape, std::vector<int>(size), std::vector<float>(size),
             std::vector<bool>(size)};
  ASSERT_EQ(whole.shape, parameter.shape) << parameter.name;
  const auto values = model::pieces_to_host(parameter, parameter.value);
  for (std::size_t i = 0; i < values.size(); ++i)
    for_each_element(parameter, parameter.pieces[i], [&](std::size_t to, std::size_t from) {
      whole.owners[to] += parameter.owned ? 1 : 0;
      if (whole.seen[to]) {
        ASSERT_EQ(whole.values[to], values[i][from]) << parameter.name;
      }
      whole.values[to] = values[i][from];
      whole.seen[to] = true;
    });
}

std::map<std::string, Whole> assemble(const ModelSpec& spec, int pp, int tp) {
  std::map<std::string, Whole> wholes;
  for (const model::StagePlan& plan : places(spec, pp, tp)) {
    const auto device = test::make_test_device(kMemory);
    Stage stage(*device, spec, plan, nullptr, all, DType::f32);
    model::load_parameters(stage.parameters(), model::RandomWeights(77));
    for (const Parameter& parameter : stage.parameters().parameters()) add_to(wholes, parameter);
  }
  return wholes;
}

class Golden : public ::testing::TestWithParam<std::string> {
 protected:
  ModelSpec spec_ = golden_spec(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Models, Golden, ::testing::ValuesIn(kGoldenModels), [](const auto& named) {
  std::string name = named.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Every element of every parameter has one owner on each grid, all holders have the same value, and
// the values are those of the undivided model.
TEST_P(Golden, EveryGridHoldsTheSameModelOnce) {
  const auto reference = assemble(spec_, 1, 1);
  std::int64_t total = 0;
  for (const auto& [name, whole] : reference) total += whole.shape.elements();
  EXPECT_EQ(total, spec_.parameters());
  for (const int tp : {1, 2, 4})
    for (const int pp : {1, 2, 3}) {
      SCOPED_TRACE("tp " + std::to_string(tp) + " pp " + std::to_string(pp));
      ASSERT_TRUE(fits(spec_, tp));
      const auto wholes = assemble(spec_, pp, tp);
      ASSERT_EQ(wholes.size(), reference.size());
      for (const auto& [name, whole] : wholes) {
        ASSERT_TRUE(reference.count(name)) << name;
        EXPECT_EQ(whole.owners, std::vector<int>(whole.owners.size(), 1)) << name;
        EXPECT_EQ(whole.values, reference.at(name).values) << name;
      }
    }
}

TEST_P(Golden, NamesFollowFromTheSpec) {
  std::set<std::string> names;
  for (const auto& [name, whole] : assemble(spec_, 1, 1)) names.insert(name);
  EXPECT_EQ(names, model::parameter_names(spec_));
}

TEST_P(Golden, GradientsLieInBucketsFromTheLastToTheFirst) {
  const auto device = test::make_test_device(kMemory);
  for (const model::StagePlan& plan : places(spec_, 2, 2)) {
    Stage stage(*device, spec_, plan, nullptr, all, DType::f32);
    const model::ParameterSet& set = stage.parameters();
    std::int64_t end = set.gradients().elements();
    for (int bucket = 0; bucket < set.buckets(); ++bucket) {
      const auto range = set.bucket(bucket);
      EXPECT_EQ(range.begin + range.count, end) << "bucket " << bucket;
      end = range.begin;
    }
    EXPECT_EQ(end, 0);
    // No two parameters share elements of the flat gradient.
    std::vector<int> used(static_cast<std::size_t>(set.gradients().elements()));
    for (const Parameter& parameter : set.parameters())
      for (std::int64_t i = 0; i < parameter.value.elements(); ++i)
        EXPECT_EQ(++used[static_cast<std::size_t>(parameter.flat_offset + i)], 1) << parameter.name;
  }
}

// The gradient of a part is a window on the flat gradient.
TEST_P(Golden, GradientsOfPartsAreWhereTheySay) {
  const auto device = test::make_test_device(kMemory);
  Stage stage(*device, spec_, places(spec_, 1, 2)[1], nullptr, all, DType::f32);
  const model::ParameterSet& set = stage.parameters();
  std::vector<float> numbers(static_cast<std::size_t>(set.gradients().elements()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  copy_from_host(set.gradients(), numbers);
  for (const Parameter& parameter : set.parameters()) {
    const auto begin = numbers.begin() + parameter.flat_offset;
    EXPECT_EQ(to_host(parameter.grad()),
              std::vector<float>(begin, begin + parameter.value.elements()))
        << parameter.name;
  }
}

TEST_P(Golden, FrozenMatricesAreNarrowAndHaveNoGradient) {
  const auto device = test::make_test_device(kMemory);
  const std::string head_norm = model::names_of(spec_.family).final_norm;
  Stage stage(
      *device, spec_, places(spec_, 1, 1)[0], nullptr,
      [&](const std::string& name) { return name.rfind(head_norm, 0) == 0; }, DType::bf16);
  std::int64_t trained = 0;
  for (const Parameter& parameter : stage.parameters().parameters()) {
    if (parameter.trainable()) trained += parameter.value.elements();
    EXPECT_EQ(parameter.value.dtype(), parameter.matrix ? DType::bf16 : DType::f32)
        << parameter.name;
  }
  const std::int64_t norm =
      spec_.norm == kernels::NormKind::layer ? 2 * spec_.hidden : spec_.hidden;
  EXPECT_EQ(trained, spec_.final_norm ? norm : 0);
  EXPECT_EQ(stage.parameters().gradients().defined(), spec_.final_norm);
}

TEST_P(Golden, NamesAreKnownWithoutAModel) {
  const auto device = test::make_test_device(kMemory);
  const auto groups = model::parameter_groups(spec_);
  const Stage stage(*device, spec_, places(spec_, 1, 1)[0], nullptr, all, DType::f32);
  std::vector<std::string> names, expected;
  for (const auto& group : groups) names.insert(names.end(), group.begin(), group.end());
  for (const Parameter& parameter : stage.parameters().parameters())
    expected.push_back(parameter.name);
  EXPECT_EQ(names, expected);
  for (const auto& group : groups) {
    const auto train_first = [&] {
      const Stage one(
          *device, spec_, places(spec_, 1, 1)[0], nullptr,
          [&](const std::string& name) { return name == group.front(); }, DType::f32);
    };
    if (group.size() == 1)
      train_first();
    else
      expect_error(ErrorKind::config, train_first, group.front(), "one fused matrix");
  }
}

TEST(Parameters, PartsOfAFusedMatrixAreFrozenTogether) {
  const auto device = test::make_test_device(kMemory);
  const ModelSpec spec = golden_spec("llama");
  expect_error(
      ErrorKind::config,
      [&] {
        Stage stage(
            *device, spec, places(spec, 1, 1)[0], nullptr,
            [](const std::string& name) { return name.find("k_proj") == std::string::npos; },
            DType::f32);
      },
      "model.freeze", "q_proj.weight", "k_proj.weight", "both or none");
}

// --- weight sources ---

// Gives every element of a parameter the layer number in its name, and remembers the names.
class LayerNumbers : public model::WeightSource {
 public:
  explicit LayerNumbers(const std::string& prefix) : prefix_(prefix) {}
  void read(const Parameter& parameter, const Piece& piece, float* out) const override {
    float number = -1;
    if (parameter.name.rfind(prefix_, 0) == 0)
      number = std::stof(parameter.name.substr(prefix_.size()));
    std::fill(out, out + piece.rows * piece.columns, number);
  }

 private:
  std::string prefix_;
};

TEST_P(Golden, ChosenLayersReadFromTheLayersChosen) {
  ModelSpec student = spec_;
  student.layers = 3;
  const std::vector<std::int64_t> chosen{0, 13, 2};
  const auto device = test::make_test_device(kMemory);
  // The second stage of two: layer numbers are those of the whole model.
  for (const model::StagePlan& plan : places(student, 2, 1)) {
    Stage stage(*device, student, plan, nullptr, all, DType::f32);
    const std::string prefix = model::names_of(student.family).layer;
    const LayerNumbers source(prefix);
    model::load_parameters(stage.parameters(), model::ChosenLayers(source, student.family, chosen));
    for (const Parameter& parameter : stage.parameters().parameters()) {
      float expected = -1;
      if (parameter.name.rfind(prefix, 0) == 0)
        expected = static_cast<float>(chosen[std::stoul(parameter.name.substr(prefix.size()))]);
      for (const float value : to_host(parameter.value))
        ASSERT_EQ(value, expected) << parameter.name;
    }
  }
}

TEST(RandomWeights, FollowTheirDistribution) {
  const ModelSpec spec = golden_spec("gpt2");
  const auto device = test::make_test_device(kMemory);
  Stage stage(*device, spec, places(spec, 1, 1)[0], nullptr, all, DType::f32);
  model::load_parameters(stage.parameters(), model::RandomWeights(1));
  const auto spread = [&](const std::string& name) {
    double sum = 0, square = 0;
    const auto values = to_host(stage.parameters().find(name)->value);
    for (const float v : values) sum += v, square += static_cast<double>(v) * v;
    const auto n = static_cast<double>(values.size());
    EXPECT_NEAR(sum / n, 0, 0.02 * 5 / std::sqrt(n)) << name;
    return std::sqrt(square / n);
  };
  EXPECT_NEAR(spread("transformer.wte.weight"), 0.02, 0.0005);
  // Projections back to the residual: smaller by sqrt(2 layers).
  EXPECT_NEAR(spread("transformer.h.2.mlp.c_proj.weight"), 0.02 / std::sqrt(8.0), 0.0003);
  EXPECT_EQ(to_host(stage.parameters().find("transformer.ln_f.weight")->value),
            std::vector<float>(64, 1.0f));
  EXPECT_EQ(to_host(stage.parameters().find("transformer.ln_f.bias")->value),
            std::vector<float>(64, 0.0f));
}

TEST(RandomWeights, DifferBetweenSeedsAndNames) {
  const ModelSpec spec = golden_spec("llama");
  const auto device = test::make_test_device(kMemory);
  const auto values = [&](std::uint64_t seed, const char* name) {
    Stage stage(*device, spec, places(spec, 1, 1)[0], nullptr, all, DType::f32);
    model::load_parameters(stage.parameters(), model::RandomWeights(seed));
    return to_host(stage.parameters().find(name)->value);
  };
  const char* q0 = "model.layers.0.self_attn.q_proj.weight";
  EXPECT_EQ(values(1, q0), values(1, q0));
  EXPECT_NE(values(1, q0), values(2, q0));
  EXPECT_NE(values(1, q0), values(std::uint64_t{1} << 32 | 1, q0));
  EXPECT_NE(values(1, q0), values(1, "model.layers.1.self_attn.q_proj.weight"));
}

class OneBadNumber : public model::WeightSource {
 public:
  void read(const Parameter& parameter, const Piece& piece, float* out) const override {
    std::fill(out, out + piece.rows * piece.columns, 0.0f);
    if (parameter.name == "model.layers.2.mlp.down_proj.weight") out[piece.columns + 5] = NAN;
  }
};

TEST(LoadParameters, RefusesNumbersThatAreNotFinite) {
  const ModelSpec spec = golden_spec("llama");
  const auto device = test::make_test_device(kMemory);
  // The second of two tensor ranks: the element is named as in the whole matrix.
  Stage stage(*device, spec, places(spec, 1, 2)[1], nullptr, all, DType::f32);
  expect_error(
      ErrorKind::numeric, [&] { load_parameters(stage.parameters(), OneBadNumber()); },
      "model.layers.2.mlp.down_proj.weight", "[1, 61]", "nan");
}

}  // namespace
}  // namespace fathom::test
