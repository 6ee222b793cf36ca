#include "train/probe.h"

#include <limits>

#include "checkpoints/safetensors.h"
#include "data/batch_plan.h"

namespace fathom::train {
namespace {

std::vector<std::int32_t> read_ids(const checkpoints::SafetensorsReader& reader, const char* name,
                                   const checkpoints::Shape& shape) {
  reader.at(name, shape);
  const std::vector<std::int64_t> values = reader.read_i64(name);
  using Id = std::numeric_limits<std::int32_t>;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto column = static_cast<std::int64_t>(i) % shape[1];
    require(values[i] >= Id::min() && values[i] <= Id::max(), ErrorKind::data,
            reader.files().front().path().string(), ": ", name, "[",
            static_cast<std::int64_t>(i) / shape[1], ", ", column, "] is ", values[i],
            ", which does not fit 32 bits");
  }
  return {values.begin(), values.end()};
}

// Collects what the student's taps show and scatters packed rows back to their padded places.
class Recorder {
 public:
  Recorder(Engine& engine, const PaddedBatch& batch) : engine_(engine), batch_(batch) {
    const auto share =
        data::share_of(batch.rows, engine.grid().place().dp, engine.grid().shape().dp);
    for (std::int64_t row = share.begin; row < share.end; ++row)
      for (std::int64_t t = 0; t < batch.length; ++t)
        if (batch.mask[static_cast<std::size_t>(row * batch.length + t)] != 0)
          places_.push_back(row * batch.length + t);
  }

  void record(std::int64_t layer, const autograd::Var& states) {
    const model::Stage& student = engine_.student();
    // Tensor ranks hold the same states; the first one speaks.
    const bool speaks = engine_.grid().place().tp == 0;
    if (!speaks) return;
    const Tensor shown = layer < student.spec().layers
                             ? states.value
                             : student.finish(model::Pass{}, autograd::Var(states.value)).value;
    add("hidden." + std::to_string(layer), to_host(shown), shown.columns(), 0);
  }

  // The logits that the head makes of this.
  void record_logits(const Tensor& head_input) {
    const bool speaks = engine_.grid().place().tp == 0;
    const model::Stage& student = engine_.student();
    model::for_each_logits(student, head_input, 64,
                           [&](std::int64_t first, std::int64_t, const std::vector<float>& values) {
                             if (speaks) add("logits", values, student.spec().vocab, first);
                           });
  }

  std::vector<Fragment> take() { return std::move(fragments_); }

 private:
  void add(const std::string& name, const std::vector<float>& values, std::int64_t width,
           std::int64_t first) {
    for (std::size_t at = 0; at < values.size(); at += static_cast<std::size_t>(width)) {
      const std::int64_t row = first + static_cast<std::int64_t>(at) / width;
      fragments_.push_back({name,
                            {batch_.rows * batch_.length, width},
                            places_.at(static_cast<std::size_t>(row)),
                            0,
                            1,
                            width,
                            {values.begin() + static_cast<std::ptrdiff_t>(at),
                             values.begin() + static_cast<std::ptrdiff_t>(at) + width}});
    }
  }

  Engine& engine_;
  const PaddedBatch& batch_;
  std::vector<std::int64_t> places_;
  std::vector<Fragment> fragments_;
};

// Rows that no sequence covers are zero.
void add_padding(const PaddedBatch& batch, std::int64_t layers, const model::ModelSpec& spec,
                 std::vector<Fragment>& fragments) {
  for (std::size_t at = 0; at < batch.mask.size(); ++at) {
    if (batch.mask[at] != 0) continue;
    const auto zero = [&](const std::string& name, std::int64_t width) {
      fragments.push_back({name,
                           {batch.rows * batch.length, width},
                           static_cast<std::int64_t>(at),
                           0,
                           1,
                           width,
                           std::vector<float>(static_cast<std::size_t>(width), 0.0f)});
    };
    for (std::int64_t layer = 0; layer < layers; ++layer)
      zero("hidden." + std::to_string(layer), spec.hidden);
    zero("hidden." + std::to_string(layers), spec.embed_dim);
    zero("logits", spec.vocab);
  }
}

}  // namespace

PaddedBatch read_padded_batch(const std::filesystem::path& path) {
  const checkpoints::SafetensorsReader reader(path);
  PaddedBatch batch;
  const checkpoints::Shape shape = reader.at("input_ids").shape;
  require(shape.size() == 2 && shape[0] > 0 && shape[1] > 0, ErrorKind::data, path.string(),
          ": input_ids must be [rows, length], not ", checkpoints::to_string(shape));
  batch.rows = shape[0];
  batch.length = shape[1];
  batch.ids = read_ids(reader, "input_ids", shape);
  batch.mask = reader.contains("attention_mask") ? read_ids(reader, "attention_mask", shape)
                                                 : std::vector<std::int32_t>(batch.ids.size(), 1);
  if (reader.contains("labels")) {
    batch.labels = read_ids(reader, "labels", shape);
  } else {
    batch.labels = batch.ids;
    for (std::size_t i = 0; i < batch.ids.size(); ++i)
      if (batch.mask[i] == 0) batch.labels[i] = data::kNoLabel;
  }
  return batch;
}

std::vector<data::MicroBatch> rows_of_rank(const PaddedBatch& batch, comm::ProcessGrid& grid,
                                           std::int64_t vocab) {
  const data::MicroBatch whole = data::from_padded(batch.ids, batch.mask, batch.labels, batch.rows,
                                                   batch.length, static_cast<std::int32_t>(vocab));
  const auto share = data::share_of(batch.rows, grid.place().dp, grid.shape().dp);
  return {data::slice(whole, share.begin, share.end)};
}

bool needs_training_pass(const EnginePlan& plan) {
  return !plan.fdd_layers.empty() || !plan.mta_layers.empty() || plan.mode || plan.moc.enabled ||
         plan.adapter.kind == methods::adapters::Kind::molex;
}

ProbeResult probe(Engine& engine, const PaddedBatch& batch, bool training) {
  const model::ModelSpec& spec = engine.student().spec();
  const data::MicroBatch whole =
      data::from_padded(batch.ids, batch.mask, batch.labels, batch.rows, batch.length,
                        static_cast<std::int32_t>(spec.vocab));
  require(batch.length <= spec.max_positions, ErrorKind::data, "a batch of length ", batch.length,
          " for a model of ", spec.max_positions, " positions");
  Recorder recorder(engine, batch);
  engine.work().tap = [&](int, std::int64_t layer, const autograd::Var& states) {
    recorder.record(layer, states);
  };
  engine.work().head_tap = [&](int, const Tensor& input) { recorder.record_logits(input); };
  auto slots = rows_of_rank(batch, engine.grid(), spec.vocab);
  const data::RoleCounts counts(data::count(whole));
  ProbeResult result;
  result.sums = training ? engine.forward_backward(std::move(slots), counts, 0)
                         : engine.evaluate(std::move(slots), {}, counts);
  engine.work().tap = nullptr;
  engine.work().head_tap = nullptr;
  std::vector<Fragment> fragments = recorder.take();
  const bool first_replica = engine.grid().place().dp == 0;
  if (training && first_replica)
    for (const model::Parameter& parameter : engine.student().parameters().parameters())
      if (parameter.trainable())
        append_fragments(parameter, parameter.grad(), "grad." + parameter.name, fragments);
  if (engine.grid().world().rank() == 0) add_padding(batch, spec.layers, spec, fragments);
  result.tensors = collect(engine.grid().world(), fragments);
  if (engine.grid().world().rank() == 0) {
    const double tokens = static_cast<double>(std::max<std::int64_t>(1, result.sums.tokens));
    const auto scalar = [&](const char* name, double value) {
      result.tensors[name] = {{1}, {static_cast<float>(value)}};
    };
    scalar("cross_entropy", result.sums.cross_entropy / tokens);
    scalar("loss", engine.objective(result.sums));
  }
  return result;
}

}  // namespace fathom::train
