#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "base/status.h"
#include "base/step_id.h"
#include "config/cluster_config.h"
#include "config/service_config.h"
#include "model/manifest.h"
#include "model/model_directory.h"
#include "services/api/row_rpc.h"
#include "services/nn_worker/model_update.h"
#include "services/nn_worker/resume.h"
#include "services/runtime/process.h"
#include "train/checkpoint_port.h"
#include "train/trainer.h"

namespace simurgh {

// The checkpoints of a model with the best evaluations of the validation data: at most
// checkpoint.keep_best. Among equal ones the earlier is better.
//
// Threads: any.
class BestCheckpoints {
 public:
  // config: after ApplyBest.
  explicit BestCheckpoints(const CheckpointConfig& config)
      : count_(config.keep_best), metric_(config.best_by.value_or(EvaluationMetric())) {}

  // Returns whether evaluations are compared.
  bool enabled() const { return count_ > 0; }

  // Returns whether a checkpoint of this state would be one of the best.
  bool Admits(const TrainState& state);
  // Returns the best step once a checkpoint of this state exists; nothing if none is known.
  std::optional<uint64_t> BestWith(const TrainState& state);

  // Adds a checkpoint that exists, if it is one of the best.
  void Add(const Manifest& manifest);
  // Returns the steps, the best first.
  std::vector<uint64_t> Steps();

 private:
  struct Scored {
    double score;  // Larger is better.
    uint64_t step;
  };

  // Returns the score of a metric's value; nothing for NaN.
  std::optional<double> ScoreOf(double value) const;
  std::optional<double> ScoreOf(const TrainState& state) const;

  const size_t count_;
  const EvaluationMetric metric_;
  Mutex mutex_;
  std::vector<Scored> best_ ABSL_GUARDED_BY(mutex_);  // In descending order of the score.
};

// Receives the answers of all servers while they save or load.
using OnRows = std::function<void(const SaveProgress& progress)>;

// The clock and the files that a save uses. A simulation replaces them.
struct SaverEnvironment {
  using Clock = std::chrono::steady_clock;

  FileSystem& files = FileSystem::Real();  // Files that are in no bucket.
  std::function<Clock::time_point()> now = Clock::now;
  // Waits. Returns false after a stop.
  std::function<bool(std::chrono::milliseconds duration, const std::stop_token& stop)> sleep =
      [](auto duration, const auto& stop) { return !AwaitStop(stop, duration); };
};

// Repeats a call to all servers until it is done. what: a verb for the log, such as "saving".
// on_rows: may be empty.
// Errors: the call's error, if it is not retryable or persists for retry_deadline; CANCELLED after
// a stop.
StatusOr<SaveProgress> AwaitRows(const char* what, std::chrono::milliseconds retry_deadline,
                                 const std::function<StatusOr<SaveProgress>()>& call,
                                 const OnRows& on_rows, const std::stop_token& stop,
                                 const SaverEnvironment& environment = {});

// The model of a step, in memory, without the servers' rows.
struct ModelCopy {
  TrainState state;
  std::optional<EvaluationResult> evaluation;
  DenseCopy dense;
  std::string probe;                       // Result of MakeProbe(), may be empty.
  std::optional<ModelUpdate> update = {};  // Nothing: the model is of a training.
  double step_time = 0;                    // Time of the step's end in seconds since 1970.
};

// A model on disk.
struct SavedCheckpoint {
  std::string folder;
  uint64_t step = 0;
  double step_time = 0;
  uint64_t rows = 0;
  uint64_t bytes = 0;
  // Rows that each table has, also of a delta, which has fewer. Empty if they cannot be read.
  std::map<std::string, uint64_t> table_rows = {};
  // Rows that the servers have evicted since their start, for each table that evicts.
  std::map<std::string, uint64_t> evicted = {};
};

// Writes the model of a run into checkpoint.directory: rank 0 the dense weights and the manifest,
// the servers their rows.
//
// Threads: one at a time.
class ModelSaver {
 public:
  // Passes the call on to all servers: RowPort::SaveRows.
  using SaveRows = std::function<StatusOr<SaveProgress>(const SaveRowsCall& call)>;

  // Prepares the folder; from now on no older start completes a checkpoint. continued: the
  // checkpoint of this folder that training continues; null for none. takes_newest: it was the
  // newest one. new_run: a random number, for a new model. Adds to `best` the checkpoints that
  // training continues. is_update: the best checkpoint stays until the update is done.
  // Lifetime: `config`, `best` and the environment's files outlive the saver.
  // Errors: INVALID_ARGUMENT if the folder has a checkpoint that training does not continue;
  // ABORTED if an older start has completed one since; those of ModelDirectory.
  static StatusOr<std::unique_ptr<ModelSaver>> Open(const ClusterConfig& config,
                                                    const Checkpoint* continued, bool takes_newest,
                                                    uint64_t new_run, BestCheckpoints& best,
                                                    SaverEnvironment environment = {},
                                                    bool is_update = false);

  // Returns a saver of this training to another folder, which has no model. Errors:
  // INVALID_ARGUMENT if it has one; those of ModelDirectory.
  StatusOr<std::unique_ptr<ModelSaver>> To(const std::string& directory) const;

  // Returns the number of this start of training: see base/step_id.h.
  uint64_t run() const { return run_; }

  uint64_t generation() const { return generation_; }

  // Errors: FAILED_PRECONDITION once a newer start has taken over. A folder that cannot be read is
  // not an error.
  Status CheckNewest();

  // Checks that all servers see the folder.
  // Errors: FAILED_PRECONDITION for a server that does not; those of save_rows.
  StatusOr<SaveProgress> Probe(const SaveRows& save_rows) const;

  // Saves the model, then removes all but the newest checkpoint.keep and the best ones. config:
  // with fitted statistics. on_rows: from its first call on, the servers' rows may change. Logs the
  // progress. Errors: those of the files and of save_rows, naming the folder; DATA_LOSS if the
  // servers have lost rows; CANCELLED after a stop, or when a newer start has taken over.
  StatusOr<SavedCheckpoint> Save(const ModelCopy& model, const ClusterConfig& config,
                                 const SaveRows& save_rows, const OnRows& on_rows,
                                 const std::stop_token& stop);

 private:
  ModelSaver(const ClusterConfig& config, ModelDirectory directory, uint64_t generation,
             uint64_t run, BestCheckpoints& best, SaverEnvironment environment)
      : config_(config),
        best_(best),
        environment_(std::move(environment)),
        directory_(std::move(directory)),
        generation_(generation),
        run_(run) {}

  // Returns the manifest of a copy, without the rows' files.
  Manifest ManifestOf(const ModelCopy& model, const ClusterConfig& config) const;
  // Removes checkpoints that are not kept, and names the best one.
  Status CleanUp(const ModelCopy& model);
  // Checks that the manifest of the checkpoint that a delta would continue exists, and those of all
  // checkpoints that it continues itself.
  Status CheckContinued();

  const ClusterConfig& config_;
  BestCheckpoints& best_;
  const SaverEnvironment environment_;
  ModelDirectory directory_;
  const uint64_t generation_;  // Generation of this start in the folder.
  const uint64_t run_;
  std::unique_ptr<BestCheckpoints> own_best_;  // Set by To() only.
  std::optional<Manifest> before_;  // Manifest of the checkpoint that this start continues.
  // The checkpoint that the next delta continues: the last one of this start of training.
  struct Continued {
    std::string folder;  // Folder of the attempt, by which servers identify it.
    Manifest::Parent parent;
    uint32_t deltas;  // Number of deltas since the last full checkpoint.
  };

  std::optional<Continued> continued_;
  std::optional<uint64_t> last_step_;  // Step of the last attempt.
  uint32_t retries_ = 0;               // Number of retries of that step.
};

}  // namespace simurgh
