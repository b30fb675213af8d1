#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "base/status.h"
#include "config/cluster_config.h"
#include "config/service_config.h"
#include "rpc/server.h"
#include "services/api/methods.h"
#include "services/api/reply.h"
#include "services/nn_worker/model_saver.h"
#include "telemetry/metrics.h"
#include "train/checkpoint_port.h"
#include "train/checkpoint_schedule.h"

namespace simurgh {

// Saves the model of rank 0 on a thread, one save at a time: while training continues, after its
// end, and when `simurgh checkpoint` requests it. CheckpointSchedule decides. Counts in metrics.
//
// Threads: see CheckpointPort and the members.
class Checkpointer final : public CheckpointPort {
 public:
  // Saves a model; may be called again after an error. Threads: the thread of the save.
  using Work =
      std::function<StatusOr<SavedCheckpoint>(const OnRows& on_rows, const std::stop_token& stop)>;
  // Copies the values that the next steps change. Threads: the trainer's.
  using Prepare = std::function<Work(const TrainState& state)>;
  // Replaces the servers' rows. Threads: the thread of the load.
  using Load = std::function<Status(uint64_t step, const std::stop_token& stop)>;

  // Notes a checkpoint that is complete. Threads: the thread of the save.
  using OnSaved = std::function<void(const SavedCheckpoint& saved, double seconds)>;

  // best: receives the saved checkpoints. on_saved: may be empty. Lifetime: `best` and the registry
  // outlive it.
  Checkpointer(const CheckpointConfig& config, BestCheckpoints& best, Prepare prepare, Load load,
               MetricRegistry& registry, OnSaved on_saved = {});
  ~Checkpointer() override;  // Stops the save and waits.

  // Reports the checkpoint that training continues in the metrics.
  void SetNewest(uint64_t step, double step_time);

  bool IsDue(uint64_t step, bool evaluates) override;
  bool IsWanted(const TrainState& state) override;
  bool AwaitIdle(std::chrono::milliseconds patience) override {
    return Await(&CheckpointSchedule::is_idle, patience);
  }
  void Begin(const TrainState& state) override;
  bool AwaitRows(std::chrono::milliseconds patience) override {
    return Await(&CheckpointSchedule::rows_noted, patience);
  }
  bool keeps_best() override { return best_.enabled(); }
  std::optional<uint64_t> BestStep(const TrainState& state) override;
  uint64_t newest() override;
  void BeginLoad(uint64_t step) override;
  Status failure() override;

  // Waits for the save under way, then saves the model of the end. After an error, with on_error:
  // continue, it logs the error and saves again at each request, until it succeeds or a stop is
  // requested. work: saves to `directory`, or to checkpoint.directory if that is empty. keep_alive:
  // called regularly meanwhile, and an error ends the wait; empty if no request can come. Threads:
  // the trainer's.
  // Errors: those of the last attempt and of keep_alive. DATA_LOSS ends the attempts: the servers
  // have lost rows.
  Status SaveLast(const std::function<Work(const std::string& directory)>& work,
                  const std::function<Status()>& keep_alive, const std::stop_token& stop);

  // Ends the save under way with CANCELLED, and all later ones. Threads: any.
  void Stop() { stop_.request_stop(); }
  // Ends requests with this error, unless a save has ended them; ok: admits them. SaveLast() admits
  // them. Threads: any.
  void Refuse(Status reason);

  // --- Requests. Threads: any.

  // The state of a request.
  struct Answer {
    bool done = false;
    SavedCheckpoint saved;  // Set if done.
    uint64_t rows = 0;      // Number of rows written by the save under way.
    uint64_t all_rows = 0;  // Number of rows to write; 0 until known.
  };
  // Requests a save at the next step. directory: replaces checkpoint.directory, once the save of
  // the end has failed; empty: checkpoint.directory. Returns the number of the request. Errors: the
  // reason given to Refuse(); FAILED_PRECONDITION for a directory while training continues;
  // INVALID_ARGUMENT for one that is not absolute.
  StatusOr<uint64_t> Request(std::string directory = {});
  // Returns the state of a request.
  // Errors: OUT_OF_RANGE for an unknown number; those of the save; the reason given to Refuse().
  StatusOr<Answer> Ask(uint64_t request);

 private:
  using Clock = std::chrono::steady_clock;

  // Waits until the condition holds, for `patience` at most. Returns whether it holds.
  bool Await(bool (CheckpointSchedule::*is_so)() const, std::chrono::milliseconds patience);
  // Starts a save. mark: see CheckpointSchedule::BeginSave().
  void Start(Work work, std::optional<uint64_t> mark);
  void Run(const Work& work, bool at_mark);
  // Runs the task on a thread.
  void Launch(std::function<void()> task);
  void NoteSaved(const SavedCheckpoint& saved, double seconds);
  // Waits until a save is requested. Errors: CANCELLED after a stop; those of keep_alive.
  Status AwaitRequest(const std::function<Status()>& keep_alive, const std::stop_token& stop);

  BestCheckpoints& best_;
  const Prepare prepare_;
  const Load load_;
  const OnSaved on_saved_;
  Gauge& time_;
  Gauge& step_;
  Gauge& seconds_;
  Gauge& rows_;
  Counter& failures_;
  Counter& skipped_;
  std::stop_source stop_;
  std::thread thread_;  // Runs the last save; only the trainer's thread uses this member.

  Mutex mutex_;
  CondVar changed_;
  CheckpointSchedule schedule_ ABSL_GUARDED_BY(mutex_);
  SaveProgress progress_ ABSL_GUARDED_BY(mutex_);     // Progress of the save under way.
  bool last_failed_ ABSL_GUARDED_BY(mutex_) = false;  // SaveLast() waits for a request.
  std::string directory_ ABSL_GUARDED_BY(mutex_);     // Directory of that request.
  StatusOr<SavedCheckpoint> last_ ABSL_GUARDED_BY(mutex_) = SavedCheckpoint();
  Status refusal_ ABSL_GUARDED_BY(mutex_);
};

// Serves `simurgh checkpoint` on rank 0.
//
// Threads: the server's. Lifetime: outlives the server.
class CheckpointService {
 public:
  // checkpointer: null if nothing is saved. Lifetime: outlives the service.
  explicit CheckpointService(Checkpointer* checkpointer) : checkpointer_(checkpointer) {}

  void Register(rpc::Server& server);

 private:
  [[nodiscard]] Reply<api::SaveCheckpoint> OnSave(
      rpc::RequestOf<api::SaveCheckpoint::Request> request);

  Checkpointer* const checkpointer_;
};

// A symbolic link in checkpoint.directory to cluster.token_file, from which `simurgh checkpoint`
// learns the token of a training by `simurgh train`. The file itself stays where only its owner
// can read it. The destructor removes the link. A bucket has no links.
class TokenLink {
 public:
  // Without a token there is no link, and an older one is removed. A failure is ignored. Without a
  // link, the command needs --set cluster.token_file.
  explicit TokenLink(const ClusterConfig& config);
  ~TokenLink();
  TokenLink(const TokenLink&) = delete;
  TokenLink& operator=(const TokenLink&) = delete;

 private:
  const std::string path_;
};

// Returns the token file that the link names, if there is one that exists. directory: may be empty.
std::optional<std::string> FindTokenLink(const std::string& directory);

}  // namespace simurgh
