// MTA on the golden student and teacher: token weights, spans, cosines, both terms and the
// projectors' gradients as PyTorch computed them. Gradients of the models are compared where MTA
// runs in the training step, on every grid.

#include "golden_states.h"
#include "kernels/gemm.h"
#include "kernels/spans.h"
#include "methods/mta/align.h"
#include "tests/autograd/gradient_check.h"

namespace fathom::test {
namespace {

using autograd::GradSlot;
using autograd::Tape;
using autograd::Var;
using namespace methods::mta;

class MtaGolden : public testing::TestWithParam<const char*> {
 protected:
  LevelSpans level_spans(const std::string& level) {
    SpanList list;
    const auto& samples = golden_.json.at("options").at("spans").at(level);
    for (std::size_t s = 0; s < samples.size(); ++s) {
      std::vector<RowSpan> spans;
      for (const auto& span : samples.at(s)) {
        const std::int32_t first = golden_.batch.cu_seqlens.at(s);
        spans.push_back({first + span.at(0).get<int>(), first + span.at(1).get<int>()});
      }
      list.add_sample(spans);
    }
    return LevelSpans(*device_, golden_.batch, list);
  }

  Projector projector(std::size_t k) {
    const checkpoints::SafetensorsReader parameters(golden_.folder + "/params.safetensors");
    const auto load = [&](const std::string& name, Shape shape) {
      return Var(Tensor::from_host(*device_, shape, parameters.read_f32(name)),
                 std::make_shared<GradSlot>(Tensor::zeros(*device_, shape)));
    };
    const std::string prefix = "projector." + std::to_string(k);
    const std::int64_t width = golden_.teacher.stage().spec().hidden;
    return {load(prefix + ".weight", {width, golden_.student.stage().spec().hidden}),
            load(prefix + ".bias", {width})};
  }

  // Token weights, span means and cosines of one model at key layer k.
  void expect_spans(const LevelSpans& spans, const Tensor& states, std::size_t k,
                    const std::string& model) {
    const SpanWeights weights = span_weights(spans, states);
    const std::vector<float> rows = to_host(weights.rows);
    const Tensor unit = Tensor::empty(*device_, {spans.spans(), states.columns()});
    const Tensor norms = Tensor::empty(*device_, {spans.spans()});
    kernels::span_units(states, weights.rows, weights.mass, spans.bounds(), unit, norms);
    for (std::size_t s = 0; s < spans.samples().size(); ++s) {
      const LevelSpans::Sample& sample = spans.samples()[s];
      const std::string prefix =
          "level." + std::to_string(k) + ".sample." + std::to_string(s) + ".";
      expect_output({rows.begin() + sample.row, rows.begin() + sample.row + sample.rows},
                    golden_.expected.read_f32(prefix + "importance." + model), prefix + "weights");
      const Tensor own = unit.slice_rows(sample.span, sample.spans);
      std::vector<float> means = to_host(own);
      const std::vector<float> lengths = to_host(norms.slice_rows(sample.span, sample.spans));
      for (std::size_t i = 0; i < means.size(); ++i)
        means[i] *= lengths[i / static_cast<std::size_t>(states.columns())];
      expect_output(means, golden_.expected.read_f32(prefix + "span." + model), prefix + "span");
      if (sample.spans < 2) continue;
      const Tensor cosines = Tensor::empty(*device_, {sample.spans, sample.spans});
      kernels::gemm(own, kernels::Trans::no, own, kernels::Trans::yes, cosines);
      expect_output(to_host(cosines), golden_.expected.read_f32(prefix + "cosine." + model),
                    prefix + "cosine");
    }
  }

  std::unique_ptr<Device> device_ = make_test_device();
  GoldenCase golden_{*device_, GetParam()};
};

TEST_P(MtaGolden, SpansTermsAndProjectorGradients) {
  const auto& options = golden_.json.at("options");
  const std::size_t layers = options.at("key_layers").size();
  const auto share = [&](const char* lambda, std::int64_t samples) {
    return static_cast<float>(options.at(lambda).get<double>() /
                              static_cast<double>(layers * static_cast<std::size_t>(samples)));
  };
  Tape tape;
  const auto student = golden_.student.states(&tape, golden_.rows);
  const auto teacher = golden_.teacher.states(nullptr, golden_.rows);
  double dsa = 0, hid = 0;
  for (std::size_t k = 0; k < layers; ++k) {
    SCOPED_TRACE("key layer " + std::to_string(k));
    const LevelSpans spans = level_spans(options.at("levels").at(k));
    const Var& mine = student.at(options.at("key_layers").at(k).at(0));
    const Tensor& theirs = teacher.at(options.at("key_layers").at(k).at(1)).value;
    expect_spans(spans, mine.value, k, "student");
    expect_spans(spans, theirs, k, "teacher");

    const Projector trained = projector(k);
    const AlignSums sums = align(&tape,
                                 {.dsa_weight = share("lambda_dsa", spans.list().dsa_samples()),
                                  .hid_weight = share("lambda_hid", spans.list().hid_samples())},
                                 spans, mine, theirs, trained);
    const std::string prefix = "level." + std::to_string(k);
    const double level_dsa = golden_.expected.read_f32(prefix + ".dsa")[0];
    const double level_hid = golden_.expected.read_f32(prefix + ".hid")[0];
    EXPECT_NEAR(sums.dsa / static_cast<double>(sums.dsa_samples), level_dsa, 2e-5 * level_dsa);
    EXPECT_NEAR(sums.hid / static_cast<double>(sums.hid_samples), level_hid, 2e-5 * level_hid);
    dsa += sums.dsa / static_cast<double>(sums.dsa_samples) / static_cast<double>(layers);
    hid += sums.hid / static_cast<double>(sums.hid_samples) / static_cast<double>(layers);
    for (const auto& [name, var] :
         {std::pair{".weight", trained.weight}, {".bias", trained.bias}}) {
      const std::string full = "grad.projector." + std::to_string(k) + name;
      expect_gradient(to_host(var.slot->grad()), golden_.gradients.read_f32(full), 0, full);
    }
  }
  const auto& terms = golden_.json.at("terms");
  EXPECT_NEAR(dsa, terms.at("dsa").get<double>(), 2e-5 * dsa);
  EXPECT_NEAR(hid, terms.at("hid").get<double>(), 2e-5 * hid);
}

INSTANTIATE_TEST_SUITE_P(Cases, MtaGolden, testing::Values("mta-llama", "mta-llama-words"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace fathom::test
