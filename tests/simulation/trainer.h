#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "services/nn_worker/model_saver.h"
#include "tests/simulation/cluster.h"
#include "tests/simulation/plan.h"
#include "train/batch_queue.h"
#include "train/checkpoint_schedule.h"

namespace simurgh::simulation {

class Rank;

// One start of training: its ranks, and what they exchange.
class Start {
 public:
  Start(Cluster& cluster, ClusterConfig config, uint64_t number);
  ~Start();

  Rank& rank(uint32_t index) const { return *ranks_[index]; }
  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  // Ranks whose functions have returned, or that are dead.
  bool is_over() const;
  // The first error of a rank that is alive.
  Status status() const;
  bool has_dead_rank() const;
  bool has_failed_rank() const;

  void Kill();
  void PauseUntil(Microseconds time);
  // Ends all that ranks wait for.
  void Abort(const Status& reason) {
    if (failure_.ok()) failure_ = reason;
  }

  const Status& Aborted() const { return failure_; }

  // Exchanges numbers with the other ranks. Returns those of each.
  StatusOr<std::vector<std::vector<uint64_t>>> Gather(Process& process, uint32_t rank,
                                                      std::vector<uint64_t> own);

  Cluster& cluster;
  const ClusterConfig config;
  const uint64_t number;
  uint64_t run = 0;              // Rank 0's.
  std::map<uint64_t, bool> due;  // Rank 0's decisions, by step.

 private:
  std::vector<std::unique_ptr<Rank>> ranks_;
  Status failure_;
  std::map<uint64_t, std::map<uint32_t, std::vector<uint64_t>>> rounds_;
  std::vector<uint64_t> next_round_;  // By rank.
};

// An nn-worker.
class Rank {
 public:
  Rank(Start& start, uint32_t index);

  Process& process() const { return process_; }
  bool is_over() const { return over_ || !process_.alive; }
  bool is_done() const { return over_; }
  bool trains() const { return trains_; }
  const Status& status() const { return status_; }

 private:
  struct Step {
    std::vector<uint64_t> rows;  // Of the data.
    ShareProgress progress;
    std::vector<std::vector<uint64_t>> ids;     // By table.
    std::vector<std::vector<float>> values;     // Pulled, likewise.
    std::vector<std::vector<float>> gradients;  // Likewise.
  };

  Status Main();
  // Main's parts.
  Status FindModel();
  Status TakeOver();
  Status BeginRows();
  Status Train();
  Status SaveLast(const TrainState& state);

  void ReadData();
  // Feeds batches and starts the calls that can start.
  void Update();
  // Tells servers the ids of a step.
  void ReadAhead(uint64_t step);
  void Pull(const StartedCall& call);
  void Push(PendingBatch& pending);
  void OnAnswer(PendingBatch& pending, BatchCall call, const Status& status);
  // The request for each server.
  std::vector<RowMessage> MessagesOf(uint64_t step, const std::vector<std::vector<float>>* values);
  template <typename Ready>
  Status AwaitUpdates(const Ready& ready);

  Status Compute(PendingBatch& pending);
  Status BeginCheckpoint();
  StatusOr<TrainState> StateAfter();
  Status AwaitRankZero(const std::function<bool()>& ready);
  void BeginSave(const TrainState& state, std::optional<uint64_t> mark);

  // Calls all servers and waits.
  StatusOr<SaveProgress> SaveRows(const SaveRowsCall& call);
  StatusOr<SaveProgress> RestoreRows(const RestoreRowsCall& call);
  template <typename Request>
  StatusOr<SaveProgress> CallAll(const Request& request,
                                 void (Server::*method)(Request,
                                                        const Server::Reply<SaveProgress>&));

  Start& start_;
  Cluster& cluster_;
  World& world_;
  const Plan& plan_;
  const uint32_t index_;
  Process& process_;
  ProcessFiles files_;
  const BucketMap map_;
  bool over_ = false;
  bool trains_ = false;
  Status status_;
  Status pipeline_;  // Of the calls.

  std::optional<Checkpoint> continued_;
  TrainState begin_;
  DataPosition position_;
  DenseState dense_;
  uint64_t steps_ = 0;
  uint64_t samples_ = 0;  // Of this rank, since the start.
  std::map<uint64_t, Step> data_;
  uint64_t fed_ = 0;  // The next step to feed.
  uint64_t end_ = 0;  // Of the data.
  std::unique_ptr<BatchQueue> queue_;

  // Rank 0's.
  BestCheckpoints best_;
  std::unique_ptr<ModelSaver> saver_;
  CheckpointSchedule schedule_;
  Status saved_;  // The last save's.
};

}  // namespace simurgh::simulation
