#pragma once

#include <memory>

#include "services/api/batch_rpc.h"
#include "services/api/dense_rpc.h"
#include "services/nn_worker/cluster_port.h"
#include "services/runtime/daemon.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/rpc_setup.h"
#include "train/learning_rates.h"

namespace simurgh {

// A cluster that is reached over the network: its embedding workers and, in mode async, its
// servers.
class RemoteCluster : public ClusterPort {
 public:
  // Lifetime: `context` and `rates` outlive the cluster.
  RemoteCluster(DaemonContext& context, const LearningRates& rates);
  ~RemoteCluster() override;

  EmbeddingPort& batches() override { return *client_; }
  DensePort* dense() override { return dense_.get(); }
  StatusOr<SaveProgress> SaveRows(const SaveRowsCall& call) override {
    return client_->SaveRows(call);
  }
  StatusOr<SaveProgress> RestoreRows(const RestoreRowsCall& call) override {
    return client_->RestoreRows(call);
  }
  void EndRun(const StepId& step_id, std::chrono::milliseconds timeout) override {
    client_->EndRun(step_id, timeout);
  }
  void StopAfter(std::chrono::milliseconds pause) override { client_->StopAfter(pause); }

 private:
  RpcMetrics observer_;
  std::unique_ptr<BatchClient> client_;
  std::unique_ptr<DenseClient> dense_;
  IoThread thread_;
};

}  // namespace simurgh
