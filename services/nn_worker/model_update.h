#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/cluster_config.h"
#include "data/batch/data_position.h"
#include "data/reading/file_identity.h"
#include "model/manifest.h"
#include "services/nn_worker/resume.h"
#include "train/checkpoint_port.h"

namespace simurgh {

// The last update of a model: a training on new rows after the one that made the model. It has its
// own position and files. Those of the training stay in the manifest, and so does its end.
struct ModelUpdate {
  std::string id;                  // Value of `nn-worker --update`.
  bool is_done = false;            // False: an interrupted update, which can continue.
  std::vector<DataFile> files;     // Files of this update.
  std::vector<std::string> paths;  // Paths of `files`. Older models have none.
  DataPosition position;           // Position in `files`.
  std::string tested;              // Result of the test before the first step.
  std::vector<DataFile> trained;   // Files of all earlier updates, the newest last.
};

// Returns the last update; nothing for a model without updates. Errors: DATA_LOSS for a damaged
// manifest.
StatusOr<std::optional<ModelUpdate>> ReadUpdate(const Manifest& manifest);
void WriteUpdate(const ModelUpdate& update, Manifest& manifest);
// Returns the files that count as trained on, if the model continues from here with other files:
// those of all updates. An interrupted update adds only the files that it has begun to read.
std::vector<DataFile> TrainedFiles(const ModelUpdate& update);
// Copies the entries of updates.
void CopyUpdate(const Manifest& from, Manifest& to);
// Returns whether the same updates have changed both models.
bool HaveSameUpdate(const Manifest& a, const Manifest& b);

// Writes the capacities of tables that `--set` of this update gives: the next one needs them, too.
void KeepCapacities(const ClusterConfig& config, Manifest& manifest);

// Adds to an error of a row of the update the setting that leaves bad rows out.
Status WithRemedy(const DataConfig& data, const Status& status);

// Returns where the update `id` of the model in checkpoint.directory begins or continues: with its
// own checkpoint, if the newest one is of this update; otherwise with the best one or, without a
// best one, the newest. is_newest: receives whether that is the newest.
// Errors: those of FindResumePoint; NOT_FOUND for no model.
StatusOr<ResumePoint> FindUpdatePoint(const ClusterConfig& config, const std::string& id,
                                      bool* is_newest);

// Moves a state of training to the update's position, or to the first row of its files.
Status BeginUpdate(const Manifest& manifest, const std::string& id, TrainState& state);

}  // namespace simurgh
