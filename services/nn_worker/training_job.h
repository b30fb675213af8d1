#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "services/nn_worker/feed_buffer.h"
#include "services/nn_worker/id_overlap_report.h"
#include "services/nn_worker/train_report.h"
#include "simurgh/base/status.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/feature/raw_masks.h"
#include "simurgh/nn/dense_network.h"
#include "simurgh/train/trainer.h"

namespace simurgh {

// The training that a configuration describes, on whatever port leads to its rows.
//
// Threads: one owner.
class TrainingJob {
 public:
  // Cost: a pass over the training files where they give statistics.
  // Errors: INVALID_ARGUMENT for a model that does not fit together; of FitStatistics.
  // rank: of config.nn_worker.instances, which of them this is.
  static StatusOr<std::unique_ptr<TrainingJob>> Create(const ClusterConfig& config,
                                                       MetricRegistry& registry, uint32_t rank = 0);

  // Trains on what loaders feed in place of the training files; passes and drop_last are their
  // matter then. Before Run. Lifetime: the buffer outlives Run.
  void TakeFrom(FeedBuffer& buffer);

  // Tells a timeline what happens in Run. Lifetime: it outlives Run.
  void Trace(Timeline& timeline) { timeline_ = &timeline; }

  // As given, with statistics fitted. Lifetime: of this.
  const ClusterConfig& config() const { return config_; }

  // A hash of what all ranks must agree on: the network's first weights, and how it is trained.
  // Before Run.
  uint64_t PlanDigest();

  // Trains and evaluates. run: new for every start of trainers, the same for all ranks.
  // Errors: of Trainer.
  // dense: may be null but in mode async.
  StatusOr<TrainResult> Run(EmbeddingPort& port, DensePort* dense, uint64_t run,
                            Collective& collective, std::stop_token stop);

  // Bad rows that were left out so far, in all readings. Threads: any.
  uint64_t skipped_rows() const;

  // How the ids of the training data collide; see IdOverlapReport. Threads: any.
  std::string DescribeIdOverlap() { return collisions_.Describe(); }

  // The dense network's. Between runs. Lifetime: see DenseNetwork::parameters.
  std::span<const float> weights() { return network_->parameters(); }

  // A hash of weights, running statistics and optimizer state: equal for equal bytes.
  uint64_t NetworkDigest();

 private:
  TrainingJob(const ClusterConfig& config, MetricRegistry& registry, uint32_t rank);

  // Of this rank's share.
  OpenReader ReaderOf(const std::vector<std::string>& files, ReadOptions options,
                      Counter& skipped_rows, IdOverlapReport* collisions = nullptr) const;

  OpenReader TrainReader();

  ClusterConfig config_;  // Statistics fitted.
  const uint32_t rank_;
  const RawMasks masks_;
  FeedBuffer* buffer_ = nullptr;  // Null: files are read.
  Timeline* timeline_ = nullptr;  // Null: nobody wants one.
  TrainReport report_;
  IdOverlapReport collisions_;
  Counter& skipped_train_rows_;
  Counter& skipped_validation_rows_;
  Counter& skipped_test_rows_;
  std::unique_ptr<DenseNetwork> network_;
};

}  // namespace simurgh
