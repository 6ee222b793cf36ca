#pragma once

#include "pipeline/partition.h"
#include "train/engine.h"

namespace fathom::train {

/// Multiply-adds per token of a block's matrix products, attention's scores left out, and per row
/// of a product with the head.
double block_multiply_adds(const model::ModelSpec& spec);
double head_multiply_adds(const model::ModelSpec& spec);

/// What a token of training costs on its way through both models, in multiply-adds at the rate of
/// f32; products of a bf16 teacher count half. The same on every machine, since it decides which
/// layers lie where.
struct TokenCosts {
  double student_block = 0, student_head = 0;  ///< forward; the head with all its products
  double teacher_block = 0, teacher_head = 0;
  /// Of each block of the student, and of its head, in forward passes. What memory.recompute makes
  /// again is left out: it would move layers, and then not every bit would stay the same.
  std::vector<double> backward = {};
  double head_backward = 2;

  /// Forward and backward along the depth of a model.
  pipeline::DepthCosts student() const;
  pipeline::DepthCosts teacher(std::int64_t layers) const;
};

/// `plan` needs the models, the layers compared and the label share; its partitions are not read.
TokenCosts token_costs(const TrainConfig& config, const EnginePlan& plan);

/// The share of tokens that are supervised in the training set, by which the heads' work counts;
/// all where no file is named, a half where it is not there yet. Throws what TokenFile::open
/// throws.
double label_share(const TrainConfig& config);

}  // namespace fathom::train
