#include "train/model_identity.h"

#include <algorithm>

#include "checkpoints/safetensors.h"
#include "core/log.h"
#include "data/fingerprint.h"
#include "model/spec_difference.h"
#include "train/hf_weights.h"

namespace fathom::train {

std::string model_fingerprint(const std::filesystem::path& folder) {
  constexpr std::size_t kFirstBytes = 4096;
  const checkpoints::SafetensorsReader reader(folder);
  data::Fingerprint fingerprint;
  fingerprint.update(model::identity_text(read_model_spec(folder)));
  for (const auto& [name, entry] : reader.tensors()) {
    fingerprint.update(str("\n", name, " ", checkpoints::to_string(entry.element), " ",
                           checkpoints::to_string(entry.shape), "\n"));
    const auto bytes = reader.bytes(name);
    fingerprint.update(bytes.first(std::min(kFirstBytes, bytes.size())));
  }
  return fingerprint.hex();
}

void require_same_student(const RunState& saved, const model::ModelSpec& now,
                          const std::string& origin) {
  const auto was = model::parse_config(saved.model_config, origin + " (model_config)");
  const std::string found = model::differences(was, now);
  require(found.empty(), ErrorKind::config, origin,
          ": its model is not the one of this run:", found,
          "\na run goes on with the model that it began with; for another one choose another "
          "run.dir");
}

void require_same_teacher(const RunState& saved, const std::string& now, const TrainConfig& config,
                          const std::string& origin) {
  if (saved.teacher.empty() || now.empty() || saved.teacher == now) return;
  const std::string change = str("teacher.path = ", config.teacher.path, ": the model there (", now,
                                 ") is not the teacher of ", origin, " (", saved.teacher, ")");
  require(config.run.accept_changes, ErrorKind::config, change,
          "; run.accept_changes=true goes on with it");
  log_info("changed since the checkpoint: ", change);
}

}  // namespace fathom::train
