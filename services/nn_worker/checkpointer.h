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
// end, and when `simurgh checkpoint` asks. CheckpointSchedule decides. Counts in metrics.
//
// Threads: see CheckpointPort and the members.
class Checkpointer final : public CheckpointPort {
 public:
  // Saves a model; may be called again after an error. Threads: the save's.
  using Work =
      std::function<StatusOr<SavedCheckpoint>(const OnRows& on_rows, const std::stop_token& stop)>;
  // Copies what training changes next. Threads: the trainer's.
  using Prepare = std::function<Work(const TrainState& state)>;
  // Replaces the servers' rows. Threads: the load's.
  using Load = std::function<Status(uint64_t step, const std::stop_token& stop)>;

  // best: what the saves add to. Lifetime: `best` and the registry outlive it.
  Checkpointer(const CheckpointConfig& config, BestCheckpoints& best, Prepare prepare, Load load,
               MetricRegistry& registry);
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
  // requested. work: for a folder in place of checkpoint.directory, or for that one. keep_alive:
  // called regularly meanwhile, and an error ends the wait; empty if no request can come. Threads:
  // the trainer's.
  // Errors: of the last attempt; of keep_alive. DATA_LOSS ends the attempts: the servers have lost
  // rows.
  Status SaveLast(const std::function<Work(const std::string& directory)>& work,
                  const std::function<Status()>& keep_alive, const std::stop_token& stop);

  // Ends the save under way with CANCELLED, and all later ones. Threads: any.
  void Stop() { stop_.request_stop(); }
  // Ends requests with this error, unless a save has ended them; ok: admits them. SaveLast() admits
  // them. Threads: any.
  void Refuse(Status reason);

  // --- Requests. Threads: any.

  // What is known of a request.
  struct Answer {
    bool done = false;
    SavedCheckpoint saved;  // If done.
    uint64_t rows = 0;      // Written by the save under way.
    uint64_t all_rows = 0;  // To write; 0 until known.
  };
  // Asks for a save at the next step. directory: in place of checkpoint.directory, once the save of
  // the end has failed; empty: that one. Returns the number of the request. Errors: of Refuse();
  // FAILED_PRECONDITION for a directory while training goes on; INVALID_ARGUMENT for one that is
  // not absolute.
  StatusOr<uint64_t> Request(std::string directory = {});
  // Errors: OUT_OF_RANGE for a number that is not of a request; of the save; of Refuse().
  StatusOr<Answer> Ask(uint64_t request);

 private:
  using Clock = std::chrono::steady_clock;

  // Returns whether it is so, at the latest after the patience.
  bool Await(bool (CheckpointSchedule::*is_so)() const, std::chrono::milliseconds patience);
  // mark: as for CheckpointSchedule::BeginSave().
  void Start(Work work, std::optional<uint64_t> mark);
  void Run(const Work& work, bool at_mark);
  // Runs the task on a thread.
  void Launch(std::function<void()> task);
  void OnSaved(const SavedCheckpoint& saved, Clock::duration duration);
  // Errors: CANCELLED after a stop; of keep_alive.
  Status AwaitRequest(const std::function<Status()>& keep_alive, const std::stop_token& stop);

  BestCheckpoints& best_;
  const Prepare prepare_;
  const Load load_;
  Gauge& time_;
  Gauge& step_;
  Gauge& seconds_;
  Gauge& bytes_;
  Gauge& rows_;
  Counter& failures_;
  Counter& skipped_;
  std::stop_source stop_;
  std::thread thread_;  // The trainer's; of the last save.

  Mutex mutex_;
  CondVar changed_;
  CheckpointSchedule schedule_ ABSL_GUARDED_BY(mutex_);
  SaveProgress progress_ ABSL_GUARDED_BY(mutex_);     // Of the save under way.
  bool last_failed_ ABSL_GUARDED_BY(mutex_) = false;  // SaveLast() waits for a request.
  std::string directory_ ABSL_GUARDED_BY(mutex_);     // Of that request.
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
// can read it. Removed by the destructor.
class TokenLink {
 public:
  // Without a token there is no link, and an older one is removed. A failure is ignored: the
  // command then needs --set cluster.token_file.
  explicit TokenLink(const ClusterConfig& config);
  ~TokenLink();
  TokenLink(const TokenLink&) = delete;
  TokenLink& operator=(const TokenLink&) = delete;

 private:
  const std::string path_;
};

// The token file that the link names, if there is one that exists. directory: may be empty.
std::optional<std::string> FindTokenLink(const std::string& directory);

}  // namespace simurgh
