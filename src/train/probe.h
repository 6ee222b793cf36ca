#pragma once

#include <filesystem>

#include "train/collect.h"
#include "train/engine.h"

namespace fathom::train {

/// A padded batch as Hugging Face models take it: input_ids, attention_mask and labels [rows,
/// length].
struct PaddedBatch {
  std::int64_t rows = 0, length = 0;
  std::vector<std::int32_t> ids, mask, labels;
};

/// Reads a safetensors file with input_ids, and attention_mask (default: all ones) and labels
/// (default: the ids where attended). Throws Error(data) naming the tensor for unlike shapes and
/// numbers that no id can be.
PaddedBatch read_padded_batch(const std::filesystem::path& path);

/// This rank's rows of a batch as its one micro-batch; data-parallel rank r takes the r-th block of
/// rows.
std::vector<data::MicroBatch> rows_of_rank(const PaddedBatch& batch, comm::ProcessGrid& grid,
                                           std::int64_t vocab);

struct ProbeResult {
  model::LossSums sums;                        ///< on every rank
  std::map<std::string, WholeTensor> tensors;  ///< on rank 0
};

/// Whether the loss has terms that only a training pass computes: of FDD, of a vote's distillation,
/// of the balance of routed methods.
bool needs_training_pass(const EnginePlan& plan);

/// Runs the student on a batch and returns logits [rows * length, vocab], hidden.0 ... hidden.L
/// [rows * length, width] (the last one after the final norm), zero rows where the mask is 0;
/// cross_entropy [1], the mean over supervised tokens; loss [1], the whole objective of these rows
/// as a step of the data set; and with `training` its gradients grad.<parameter>, which are left in
/// their buffers for an optimizer step. Collective over the grid. `training` needs an engine that
/// was made for it, and the loss of some plans needs `training`.
ProbeResult probe(Engine& engine, const PaddedBatch& batch, bool training);

}  // namespace fathom::train
