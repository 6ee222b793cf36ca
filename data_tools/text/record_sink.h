#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/token_file.h"
#include "data_tools/text/tokenize.h"

namespace fathom::data_tools {

/// Joins documents and cuts them into records of `block` inputs. The last id of a record is the
/// first of the next, so that every token but the very first is a label exactly once.
class BlockCutter {
 public:
  using Take = std::function<void(std::vector<std::int32_t>)>;
  BlockCutter(std::int64_t block, Take take) : block_(block), take_(std::move(take)) {}

  void add(std::span<const std::int32_t> ids);
  /// Hands over what is left, if it holds at least one label.
  void finish();

 private:
  void emit();

  std::int64_t block_;
  Take take_;
  std::vector<std::int32_t> pending_;
};

/// Where encoded records go: through the length policy, to the training or the held-out file.
class RecordSink {
 public:
  RecordSink(const TokenizeOptions& options, const data::TokenFileInfo& info,
             TokenizeReport& report);

  /// `unit` decides the side of the split (all records of a line go together); `where` begins the
  /// message about an overlong record.
  void add(std::vector<std::int32_t> ids, std::int32_t prompt_length, std::int64_t source,
           std::int64_t unit, const std::string& where);

  /// Adds a document, or a part of one, to the blocks (only where options.block > 0).
  void join(std::span<const std::int32_t> ids) { cutter_.add(ids); }

  /// Writes both files and completes the report. Throws Error(data) if one would be empty.
  void finish(const std::string& source_fingerprint);

 private:
  bool held_out(std::int64_t unit) const;

  const TokenizeOptions& options_;
  TokenizeReport& report_;
  data::TokenFileWriter train_;
  std::optional<data::TokenFileWriter> eval_;
  BlockCutter cutter_;
  std::int64_t blocks_ = 0;
};

}  // namespace fathom::data_tools
