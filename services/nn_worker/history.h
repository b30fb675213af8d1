#pragma once

#include <atomic>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include <nlohmann/json.hpp>

#include "base/mutex.h"
#include "base/status.h"
#include "config/cluster_config.h"
#include "services/nn_worker/bucket_history.h"
#include "services/nn_worker/model_saver.h"
#include "telemetry/event_file.h"
#include "train/trainer.h"

namespace simurgh {

// How training went: the file history.jsonl in checkpoint.directory, one JSON object a line, see
// src/model/FORMAT.md; and events for TensorBoard in training.tensorboard. Both are optional.
//
// What cannot be written is logged once; training goes on.
//
// Threads: any.
class History {
 public:
  struct Rates {
    float dense = 0;
    std::vector<std::pair<std::string, float>> tables;  // The tables' names and rates.
  };
  // Returns the learning rates of a step.
  using RatesAt = std::function<Rates(uint64_t step)>;

  // Opens the history of a model, or a new one. step: of the checkpoint that training continues;
  // lines of later steps are removed. generation: of this start; 0 without a folder.
  // Errors: UNAVAILABLE; for a bucket those of BucketHistory.
  static StatusOr<std::unique_ptr<History>> Open(const ClusterConfig& config, uint64_t step,
                                                 uint64_t generation, RatesAt rates);

  void Add(const TrainObserver::Progress& progress);
  void Add(uint64_t step, EvaluationSet set, const EvaluationResult& result);
  void Add(const SavedCheckpoint& saved, double seconds);
  // The end of training, which `max_steps` has limited, or not.
  void Add(const TrainResult& result, uint64_t max_steps);

  // Returns whether the next step's Sample is wanted: after each progress, for TensorBoard.
  bool WantsSample() const { return wants_sample_; }
  void Add(const TrainObserver::Sample& sample);

 private:
  using Json = nlohmann::ordered_json;

  History(std::string path, RatesAt rates, size_t labels)
      : path_(std::move(path)), rates_(std::move(rates)), labels_(labels) {}

  // Writes a line. rest: without event, step and time.
  void Write(const char* event, uint64_t step, const Json& rest);
  // Makes the lines so far appear in a bucket.
  void Show() {
    if (in_bucket_ != nullptr) in_bucket_->Write();
  }
  void Warn(const Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;                    // Empty: there is no file, or it is in a bucket.
  std::unique_ptr<BucketHistory> in_bucket_;  // Null: the file is in no bucket.
  const RatesAt rates_;
  const size_t labels_;
  std::atomic<bool> wants_sample_ = false;
  Mutex mutex_;
  std::ofstream file_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<EventFile> events_ ABSL_GUARDED_BY(mutex_);  // May be null.
  bool has_failed_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Rates> last_rates_;  // Only the trainer's thread uses them.
};

}  // namespace simurgh
