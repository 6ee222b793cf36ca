#pragma once

#include <optional>
#include <string>

#include "data/overlong.h"
#include "diagnose/depth/recommend.h"
#include "launch/options/command_line.h"
#include "launch/options/shared.h"

namespace fathom::options {

/// `fathom diagnose depth`: what each late layer of a model says by itself, and how many of them
/// are worth a vote.
struct DiagnoseDepthRequest {
  ModelSource source;
  std::string data;            ///< tokens.h5
  bool any_tokenizer = false;  ///< whatever made the token file
  std::string output;          ///< folder of the report
  int layers = 0;              ///< of a model whose layers do not vote yet; 0: half of them
  std::int64_t batch = 8;      ///< records at once
  int batches = 0;             ///< 0: all
  std::int64_t context = 0;    ///< 0: what the model allows
  data::Overlong overlong = data::Overlong::refuse;
  diagnose::depth::DepthRule rule;
  Ranks ranks;
  std::optional<std::string> reply;  ///< the --help page
};

extern const Command diagnose_depth_command;

/// Throws Error(usage) or Error(config).
DiagnoseDepthRequest parse_diagnose_depth(const Arguments& arguments);

}  // namespace fathom::options
