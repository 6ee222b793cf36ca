#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoints/checkpoint_reader.h"
#include "checkpoints/safetensors.h"

/// What `fathom checkpoint inspect|verify|export` do. None of it is collective.
namespace fathom::checkpoints {

/// A table for people: the run, its files, and every tensor with dtype, shape and pieces.
std::string inspect(const std::filesystem::path& folder);

/// Reads every byte of a checkpoint again and compares sizes and checksums. Returns one line for
/// each damage, in full: it goes on after the first. Empty if all is well.
std::vector<std::string> verify(const std::filesystem::path& folder);

struct ExportOptions {
  /// Which tensors; by default all but optimizer moments ('#' in the name) and a method's own
  /// parameters.
  std::function<bool(const std::string& name)> wanted = {};
  /// Tensors that are changed on the way: each is read whole and handed over.
  std::map<std::string, std::function<void(std::vector<float>& values)>> changes = {};
  DType dtype = DType::f32;  ///< of floating-point tensors; f32 or bf16
  std::uint64_t shard_bytes = kDefaultShardBytes;
};

/// Writes the tensors as safetensors into a folder, in bounded memory, with every checksum compared
/// if the reader verifies. Throws Error(io); Error(data) if no tensor is wanted.
void export_safetensors(CheckpointReader& reader, const std::filesystem::path& folder,
                        const ExportOptions& options = {});

}  // namespace fathom::checkpoints
