#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/nn_worker/local_cluster.h"
#include "services/nn_worker/training_job.h"
#include "simurgh/base/status.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/model/model_directory.h"
#include "simurgh/telemetry/metrics.h"
#include "simurgh/train/learning_rates.h"

namespace simurgh {

// The configuration of a checkpoint for use on this machine, without fitted statistics: addresses,
// data files, budgets and folders of the training are replaced. threads: of each part. overrides:
// "section.key=value", for plug-ins and vocabularies that are elsewhere.
// Errors: INVALID_ARGUMENT for a configuration that cannot be used here, naming the key; DATA_LOSS.
StatusOr<ClusterConfig> SavedConfig(const Checkpoint& checkpoint, uint32_t threads,
                                    const std::vector<std::string>& overrides);

// A trained model in this process, ready to predict, with its SavedConfig().
//
// Threads: one owner.
class SavedModel {
 public:
  // threads, overrides: see SavedConfig().
  // Errors: of SavedConfig(), CheckProbe() and LoadRows(); DATA_LOSS, NOT_FOUND for damage, naming
  // the file.
  static StatusOr<std::unique_ptr<SavedModel>> Load(const Checkpoint& checkpoint, uint32_t threads,
                                                    const std::vector<std::string>& overrides,
                                                    LoadProgress progress);

  const ClusterConfig& config() const { return job_->config(); }

  // See TrainingJob::Predict. Bad rows are skipped and counted, see skipped_rows().
  StatusOr<EvaluationResult> Predict(const std::string& file, ReadOptions reading, bool evaluates,
                                     PredictionSink sink);

 private:
  explicit SavedModel(ClusterConfig config) : config_(std::move(config)), rates_(config_.tables) {}

  const ClusterConfig config_;
  MetricRegistry registry_;
  LearningRates rates_;
  std::unique_ptr<TrainingJob> job_;
  std::unique_ptr<LocalCluster> cluster_;
};

}  // namespace simurgh
