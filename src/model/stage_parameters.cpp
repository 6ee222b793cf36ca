#include <cmath>

#include "model/stage.h"

// Which parameters a stage has, and which rectangle of each one this tensor rank holds.

namespace fathom::model {
namespace {

using autograd::WeightLayout;

struct Range {
  std::int64_t begin = 0, count = 0;
};

PartDeclaration part(std::string name, Shape shape, Piece piece) {
  PartDeclaration declaration;
  declaration.name = std::move(name);
  declaration.shape = shape;
  declaration.local_rows = piece.rows;
  declaration.pieces = {piece};
  return declaration;
}

// A vector of which this rank holds a range; the whole of it when replicated.
PartDeclaration vector_part(std::string name, std::int64_t size, Range range) {
  return part(std::move(name), {size}, {.row = range.begin, .rows = range.count, .columns = 1});
}

// Parameters that every tensor rank holds whole belong to the first.
PartDeclaration replicated(PartDeclaration declaration, const Shard& shard) {
  declaration.owned = shard.rank == 0;
  return declaration;
}

PartDeclaration with_init(PartDeclaration declaration, double std_dev) {
  declaration.init_std = std_dev;
  return declaration;
}

}  // namespace

Stage::Stage(Device& device, const ModelSpec& spec, const StagePlan& plan, comm::Communicator* tp,
             const std::function<bool(const std::string&)>& trainable, DType frozen_dtype,
             const std::function<void(ParameterSet&)>& declare_more, StageExtension* extension)
    : device_(device), spec_(spec), plan_(plan), tp_(tp), extension_(extension) {
  FATHOM_CHECK(plan.first_layer >= 0 && plan.end_layer <= spec.layers, "layers ", plan.first_layer,
               "..", plan.end_layer, " of ", spec.layers);
  blocks_.resize(static_cast<std::size_t>(plan.end_layer - plan.first_layer));
  if (declare_more) {
    declare_more(parameters_);
    parameters_.mark_bucket();
  }
  if (extension != nullptr) extension->begin(device_, plan_, tp_, parameters_);
  if (plan_.has_embedding) declare_embedding();
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].layer = plan_.first_layer + static_cast<std::int64_t>(i);
    declare_block(blocks_[i], extension);
    blocks_[i].bucket = parameters_.mark_bucket();
  }
  if (plan_.has_head) declare_head();
  parameters_.allocate(device_, trainable, frozen_dtype);
  if (spec_.rope.enabled()) make_rope_tables();
  if (extension != nullptr) extension->built(*this);
}

void Stage::declare_embedding() {
  const FamilyNames& names = names_of(spec_.family);
  const Shard& shard = plan_.shard;
  PartDeclaration table =
      with_init(part(names.embedding, {spec_.vocab, spec_.embed_dim},
                     {.row = shard.first_vocab, .rows = shard.vocab, .columns = spec_.embed_dim}),
                spec_.initializer_range);
  // The copy on the last stage is declared by declare_head(); both know that they are shared.
  if (spec_.tied && !plan_.has_head) table.sharing = Sharing::first_last;
  parameters_.declare(&embedding_, {shard.vocab, spec_.embed_dim}, {std::move(table)});
  if (spec_.learned_positions) {
    const std::int64_t rows = spec_.max_positions + spec_.position_offset;
    parameters_.declare(&positions_, {rows, spec_.hidden},
                        {with_init(replicated(part(names.positions, {rows, spec_.hidden},
                                                   {.rows = rows, .columns = spec_.hidden}),
                                              shard),
                                   spec_.initializer_range)});
  }
  if (spec_.projected())
    parameters_.declare(
        &project_in_, {spec_.hidden, spec_.embed_dim},
        {with_init(replicated(part(names.project_in, {spec_.hidden, spec_.embed_dim},
                                   {.rows = spec_.hidden, .columns = spec_.embed_dim}),
                              shard),
                   spec_.initializer_range)});
  embedding_bucket_ = parameters_.mark_bucket();
}

void Stage::declare_norm(NormWeights& weights, const std::string& name) {
  const Range all{0, spec_.hidden};
  PartDeclaration weight =
      replicated(vector_part(name + ".weight", spec_.hidden, all), plan_.shard);
  weight.init_value = 1;
  parameters_.declare(&weights.weight, {spec_.hidden}, {std::move(weight)});
  if (spec_.norm == kernels::NormKind::layer)
    parameters_.declare(&weights.bias, {spec_.hidden},
                        {replicated(vector_part(name + ".bias", spec_.hidden, all), plan_.shard)});
}

void Stage::declare_block(Block& block, StageExtension* extension) {
  const FamilyNames& names = names_of(spec_.family);
  const auto name = [&](const char* suffix) { return layer_name(names, block.layer, suffix); };
  const Shard& shard = plan_.shard;
  block.attention = {.heads = shard.heads,
                     .kv_heads = shard.kv_heads,
                     .head_dim = spec_.head_dim,
                     .window = spec_.window_of(block.layer),
                     .scale = spec_.attention_scale(block.layer)};
  const auto column_split = [&](int index, std::vector<LinearPart> parts) {
    return LinearSite{.layer = block.layer,
                      .index = index,
                      .inputs = spec_.hidden,
                      .inputs_here = spec_.hidden,
                      .parts = std::move(parts),
                      .layout = names.layout};
  };
  const auto row_split = [&](int index, const char* suffix, std::int64_t inputs, OutputRange here) {
    return LinearSite{
        .layer = block.layer,
        .index = index,
        .divides_outputs = false,
        .inputs = inputs,
        .first_input = here.begin,
        .inputs_here = here.count,
        .parts =
            {{name(suffix), spec_.hidden, {{0, spec_.hidden}}, Sharing::none, shard.rank == 0}},
        .layout = names.layout};
  };
  declare_norm(block.attention_norm, name(names.attention_norm));
  declare_column_split(block.qkv, column_split(0, qkv_parts(block)), spec_.qkv_bias, extension);
  declare_row_split(block.attention_out,
                    row_split(3, names.attention_out, spec_.heads * spec_.head_dim,
                              {shard.first_head * spec_.head_dim, shard.heads * spec_.head_dim}),
                    spec_.out_bias, extension);
  declare_norm(block.mlp_norm, name(names.mlp_norm));
  std::vector<LinearPart> parts;
  for (const char* suffix : names.mlp_in)
    parts.push_back({name(suffix), spec_.ffn, {{shard.first_ffn, shard.ffn}}, Sharing::none, true});
  declare_column_split(block.mlp_in, column_split(4, std::move(parts)), spec_.mlp_bias, extension);
  declare_row_split(block.mlp_out,
                    row_split(6, names.mlp_out, spec_.ffn, {shard.first_ffn, shard.ffn}),
                    spec_.mlp_bias, extension);
  if (extension == nullptr) return;
  block.attention_control = extension->control(block.layer, BlockSite::attention, parameters_);
  block.mlp_control = extension->control(block.layer, BlockSite::mlp, parameters_);
  block.edit = extension->edit(block.layer, parameters_);
  block.control = extension->block_control(block.layer, parameters_);
}

std::vector<LinearPart> Stage::qkv_parts(const Block& block) const {
  const FamilyNames& names = names_of(spec_.family);
  const Shard& shard = plan_.shard;
  const std::int64_t dim = spec_.head_dim, q = spec_.heads * dim, kv = spec_.kv_heads * dim;
  const OutputRange queries{shard.first_head * dim, shard.heads * dim};
  const OutputRange keys{shard.first_kv_head * dim, shard.kv_heads * dim};
  std::vector<LinearPart> parts;
  if (names.qkv.size() == 1) {
    // One published matrix: query, key and value columns follow each other.
    parts.push_back({layer_name(names, block.layer, names.qkv[0]),
                     q + 2 * kv,
                     {queries, {q + keys.begin, keys.count}, {q + kv + keys.begin, keys.count}},
                     Sharing::none,
                     true});
  } else {
    const Sharing sharing = shard.kv_replicas > 1 ? Sharing::kv_replicas : Sharing::none;
    const bool owned = shard.rank % shard.kv_replicas == 0;
    parts.push_back(
        {layer_name(names, block.layer, names.qkv[0]), q, {queries}, Sharing::none, true});
    for (std::size_t i : {1u, 2u})
      parts.push_back({layer_name(names, block.layer, names.qkv[i]), kv, {keys}, sharing, owned});
  }
  return parts;
}

// A linear layer whose outputs are divided over the tensor ranks; several published matrices may be
// fused into one.
void Stage::declare_column_split(LinearWeights& weights, LinearSite site, bool bias,
                                 StageExtension* extension) {
  const bool out_in = site.layout == WeightLayout::out_in;
  FATHOM_CHECK(out_in || site.parts.size() == 1, "fused parts need [out, in] weights");
  std::vector<PartDeclaration> weight_parts, bias_parts;
  std::int64_t local = 0;
  for (LinearPart& column : site.parts) {
    column.first_column = local;
    PartDeclaration weight, offset;
    weight.name = column.module + ".weight";
    weight.shape =
        out_in ? Shape{column.outputs, spec_.hidden} : Shape{spec_.hidden, column.outputs};
    offset.name = column.module + ".bias";
    offset.shape = {column.outputs};
    std::int64_t at = 0;
    for (const OutputRange& range : column.ranges) {
      if (out_in) {
        weight.pieces.push_back(
            {.row = range.begin, .local_row = at, .rows = range.count, .columns = spec_.hidden});
      } else {
        weight.pieces.push_back({.column = range.begin,
                                 .local_column = at,
                                 .rows = spec_.hidden,
                                 .columns = range.count});
      }
      offset.pieces.push_back(
          {.row = range.begin, .local_row = at, .rows = range.count, .columns = 1});
      at += range.count;
    }
    weight.local_rows = out_in ? at : spec_.hidden;
    offset.local_rows = at;
    weight.sharing = offset.sharing = column.sharing;
    weight.owned = offset.owned = column.owned;
    weight.init_std = spec_.initializer_range;
    local += at;
    weight_parts.push_back(std::move(weight));
    bias_parts.push_back(std::move(offset));
  }
  const Shape shape = out_in ? Shape{local, spec_.hidden} : Shape{spec_.hidden, local};
  parameters_.declare(&weights.weight, shape, std::move(weight_parts));
  if (bias) parameters_.declare(&weights.bias, {local}, std::move(bias_parts));
  site.weights = &weights;
  if (extension != nullptr) weights.adapter = extension->adapt(site, parameters_);
}

// A linear layer back to the hidden size whose inputs are divided over the tensor ranks. Its bias
// is added once, after the sum over ranks, and so is whole everywhere.
void Stage::declare_row_split(LinearWeights& weights, const LinearSite& site, bool bias,
                              StageExtension* extension) {
  const std::string& name = site.parts.front().module;
  const bool out_in = site.layout == WeightLayout::out_in;
  const Shape shape = out_in ? Shape{spec_.hidden, site.inputs} : Shape{site.inputs, spec_.hidden};
  const Shape local =
      out_in ? Shape{spec_.hidden, site.inputs_here} : Shape{site.inputs_here, spec_.hidden};
  Piece piece{.rows = local[0], .columns = local[1]};
  (out_in ? piece.column : piece.row) = site.first_input;
  // GPT-2 starts its residual projections smaller, by the number of residual sums.
  const double residuals =
      spec_.family == Family::gpt2 ? 2.0 * static_cast<double>(spec_.layers) : 1.0;
  parameters_.declare(&weights.weight, local,
                      {with_init(part(name + ".weight", shape, piece),
                                 spec_.initializer_range / std::sqrt(residuals))});
  if (bias)
    parameters_.declare(
        &weights.bias, {spec_.hidden},
        {replicated(vector_part(name + ".bias", spec_.hidden, {0, spec_.hidden}), plan_.shard)});
  if (extension == nullptr) return;
  LinearSite adapted = site;
  adapted.weights = &weights;
  weights.adapter = extension->adapt(adapted, parameters_);
}

void Stage::declare_head() {
  const FamilyNames& names = names_of(spec_.family);
  const Shard& shard = plan_.shard;
  if (spec_.final_norm) declare_norm(final_norm_, names.final_norm);
  if (spec_.projected())
    parameters_.declare(
        &project_out_, {spec_.embed_dim, spec_.hidden},
        {with_init(replicated(part(names.project_out, {spec_.embed_dim, spec_.hidden},
                                   {.rows = spec_.embed_dim, .columns = spec_.hidden}),
                              shard),
                   spec_.initializer_range)});
  if (spec_.tied && plan_.has_embedding) {
    head_ = &embedding_;
  } else {
    PartDeclaration table =
        with_init(part(spec_.tied ? names.embedding : names.head, {spec_.vocab, spec_.embed_dim},
                       {.row = shard.first_vocab, .rows = shard.vocab, .columns = spec_.embed_dim}),
                  spec_.initializer_range);
    if (spec_.tied) {
      table.sharing = Sharing::first_last;
      table.owned = false;
    }
    parameters_.declare(&head_own_, {shard.vocab, spec_.embed_dim}, {std::move(table)});
    head_ = &head_own_;
  }
  head_bucket_ = parameters_.mark_bucket();
}

void Stage::make_rope_tables() {
  const std::vector<double> frequencies = spec_.rope.frequencies(spec_.head_dim);
  const auto half = static_cast<std::int64_t>(frequencies.size());
  std::vector<float> cosines, sines;
  cosines.reserve(static_cast<std::size_t>(spec_.max_positions * half));
  sines.reserve(cosines.capacity());
  for (std::int64_t position = 0; position < spec_.max_positions; ++position) {
    for (const double frequency : frequencies) {
      // The angle in f32, as the published models were trained with.
      const float angle = static_cast<float>(position) * static_cast<float>(frequency);
      cosines.push_back(static_cast<float>(std::cos(static_cast<double>(angle))));
      sines.push_back(static_cast<float>(std::sin(static_cast<double>(angle))));
    }
  }
  rope_.cosines = Tensor::from_host(device_, {spec_.max_positions, half}, cosines);
  rope_.sines = Tensor::from_host(device_, {spec_.max_positions, half}, sines);
}

}  // namespace fathom::model
