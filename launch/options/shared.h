#pragma once

#include <string>

#include "kernels/backend.h"
#include "launch/options/option_table.h"

/// Options that several commands have in common.
namespace fathom::options {

/// Where a command takes its model from; exactly one of the two is given.
struct ModelSource {
  std::string model;       ///< Hugging Face folder
  std::string checkpoint;  ///< checkpoint folder, or a run folder (its newest checkpoint)
  std::string adapter;     ///< adapter folder to put on a Hugging Face model; may be empty
  DType dtype = DType::f32;
};

void describe_source(OptionTable& table, ModelSource& source);

/// Throws Error(usage) unless exactly one of --model and --checkpoint is given.
void check_source(const ModelSource& source);

/// --any-tokenizer, for commands that read token files.
void describe_any_tokenizer(OptionTable& table, bool& any_tokenizer);

/// --device, for commands that make one.
void describe_device(OptionTable& table, kernels::DeviceKind& device);

/// --device, --precision, --memory-limit-gib and --threads: what each rank computes with.
struct Machine {
  kernels::DeviceKind device = kernels::DeviceKind::automatic;
  kernels::Precision precision = kernels::Precision::f32;
  double memory_limit_gib = 0.0;  ///< per rank; 0: what is free
  int threads = 0;                ///< per rank; 0: the cores this rank is bound to
};

void describe_machine(OptionTable& table, Machine& machine);

/// What --precision and --memory-limit-gib mean, for recipes too.
extern const char* const kPrecisionHelp;
extern const char* const kMemoryLimitHelp;

/// --tp, --pp, --dp, those of Machine, and --watchdog-seconds.
struct Ranks : Machine {
  int tp = 1;
  int pp = 1;
  int dp = 1;
  double watchdog_seconds = 1800.0;  ///< 0: none
};

void describe_ranks(OptionTable& table, Ranks& ranks, bool with_dp);

}  // namespace fathom::options
