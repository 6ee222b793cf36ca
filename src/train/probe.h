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
/// (default: the ids where attended). Throws Error(data) naming the tensor for unlike shapes.
PaddedBatch read_padded_batch(const std::filesystem::path& path);

/// This rank's rows of a batch as its one micro-batch; data-parallel rank r takes the r-th block of
/// rows.
std::vector<data::MicroBatch> rows_of_rank(const PaddedBatch& batch, comm::ProcessGrid& grid,
                                           std::int64_t vocab);

struct ProbeResult {
  model::LossSums sums;                        ///< on every rank
  std::map<std::string, WholeTensor> tensors;  ///< on rank 0
};

/// Runs the student on a batch and returns logits [rows * length, vocab], hidden.0 ... hidden.L
/// [rows * length, width] (the last one after the final norm), loss [1], and with `gradients`
/// grad.<parameter> of the mean cross-entropy: zero rows where the mask is 0. Gradients are left in
/// their buffers for an optimizer step. Collective over the grid; the engine must have been made
/// for training if `gradients`.
ProbeResult probe(Engine& engine, const PaddedBatch& batch, bool gradients);

}  // namespace fathom::train
