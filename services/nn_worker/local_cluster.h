#pragma once

#include <memory>
#include <vector>

#include <boost/asio/thread_pool.hpp>

#include "config/cluster_config.h"
#include "rpc/async.h"
#include "services/api/dense_rpc.h"
#include "services/embedding_ps/parameter_server.h"
#include "services/embedding_worker/embedding_worker.h"
#include "services/nn_worker/cluster_port.h"
#include "services/runtime/io_thread.h"
#include "telemetry/metrics.h"
#include "train/learning_rates.h"
#include "train/ports.h"

namespace simurgh {

// The servers and the embedding worker of a cluster inside this process, connected by calls instead
// of sockets. Vectors are rounded as between daemons.
//
// Threads: the port's.
// Lifetime: outlive every call.
class LocalCluster : public EmbeddingPort, public ClusterPort {
 public:
  // Errors: see ParameterServer::Create. Lifetime: `rates` outlive the cluster.
  static StatusOr<std::unique_ptr<LocalCluster>> Create(const ClusterConfig& config,
                                                        MetricRegistry& registry,
                                                        const LearningRates& rates);
  ~LocalCluster() override;

  void Submit(SubmittedIds ids, const SubmitOptions& options,
              std::function<void(StatusOr<BatchReference>)> done) override;
  void Pull(BatchReference batch, const PullOptions& options, EmbeddingBuffer embeddings,
            std::function<void(StatusOr<PullAnswer>)> done) override;
  void Push(BatchReference batch, StepId step_id, GradientBuffer gradients,
            std::function<void(Status)> done) override;
  // Also fails the pulls that wait for the push of a failed step.
  void Stop() override;

  EmbeddingPort& batches() override { return *this; }
  DensePort* dense() override { return dense_.get(); }
  StatusOr<SaveProgress> SaveRows(const SaveRowsCall& call) override;
  StatusOr<SaveProgress> RestoreRows(const RestoreRowsCall& call) override;
  // The servers end with the process.
  void EndRun(const StepId& /*step_id*/, std::chrono::milliseconds /*timeout*/) override {}
  // Only pulls wait, for pushes that a stopped training may not make: there is no pause.
  void StopAfter(std::chrono::milliseconds /*pause*/) override { Stop(); }

  // Returns the servers, which the worker owns. Requires that no call is in flight.
  const std::vector<ParameterServer*>& servers() const { return servers_; }

 private:
  LocalCluster(const ClusterConfig& config, MetricRegistry& registry, const LearningRates& rates);

  rpc::Clock::time_point Deadline() const { return rpc::Clock::now() + call_timeout_; }

  const std::chrono::milliseconds call_timeout_;
  const LearningRates& rates_;
  std::vector<std::unique_ptr<ServerMetrics>> server_metrics_;  // Indexed by server.
  WorkerMetrics worker_metrics_;
  std::vector<ParameterServer*> servers_;
  std::unique_ptr<EmbeddingWorker> worker_;
  rpc::asio::thread_pool compute_;
  std::unique_ptr<DenseClient> dense_;
  IoThread io_{"cluster"};
};

}  // namespace simurgh
