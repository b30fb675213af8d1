#include "services/nn_worker/local_cluster.h"

#include <utility>

#include <boost/asio/use_future.hpp>

#include "services/api/peer_clients.h"
#include "services/embedding_ps/dense_store.h"

namespace simurgh {

LocalCluster::LocalCluster(const ClusterConfig& config, MetricRegistry& registry,
                           const LearningRates& rates)
    : call_timeout_(config.rpc.call_timeout),
      rates_(rates),
      worker_metrics_(registry, config),
      compute_(config.embedding_worker.threads) {}

LocalCluster::~LocalCluster() {
  // Every call has been answered. Threads that answered one may still be in their last post to
  // `io_`: they end before it does.
  compute_.join();
  worker_.reset();
  dense_.reset();
}

StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Create(const ClusterConfig& config,
                                                             MetricRegistry& registry,
                                                             const LearningRates& rates) {
  std::unique_ptr<LocalCluster> cluster(new LocalCluster(config, registry, rates));
  std::vector<std::unique_ptr<RowPort>> servers;
  for (size_t i = 0; i < config.embedding_ps.instances.size(); ++i) {
    cluster->server_metrics_.push_back(std::make_unique<ServerMetrics>(registry, config));
    SIMURGH_ASSIGN_OR_RETURN(auto server,
                             ParameterServer::Create(config, *cluster->server_metrics_.back()));
    cluster->servers_.push_back(server.get());
    servers.push_back(std::move(server));
  }
  constexpr uint64_t kEpoch = 1;  // The worker lives as long as its only client.
  cluster->worker_ =
      std::make_unique<EmbeddingWorker>(config, kEpoch, cluster->compute_.get_executor(),
                                        std::move(servers), cluster->worker_metrics_);
  std::vector<std::unique_ptr<DenseServer>> ranges;
  for (size_t i = 0; i < config.embedding_ps.instances.size(); ++i) {
    ranges.push_back(std::make_unique<DenseStore>(registry));
  }
  cluster->dense_ = std::make_unique<DenseClient>(cluster->io_.executor(), std::move(ranges),
                                                  cluster->call_timeout_);
  return cluster;
}

void LocalCluster::Submit(SubmittedIds ids, const SubmitOptions& options,
                          std::function<void(StatusOr<BatchReference>)> done) {
  rpc::asio::co_spawn(io_.executor(), worker_->Submit(std::move(ids.batch), options, Deadline()),
                      CompleteWith(std::move(done)));
}

void LocalCluster::Pull(BatchReference batch, const PullOptions& options,
                        EmbeddingBuffer embeddings,
                        std::function<void(StatusOr<PullAnswer>)> done) {
  rpc::asio::co_spawn(io_.executor(),
                      worker_->Pull(batch, options, std::move(embeddings), Deadline()),
                      CompleteWith(std::move(done)));
}

void LocalCluster::Push(BatchReference batch, StepId step_id, GradientBuffer gradients,
                        std::function<void(Status)> done) {
  rpc::asio::co_spawn(
      io_.executor(),
      worker_->Push(batch, step_id, rates_.At(step_id.step), std::move(gradients), Deadline()),
      CompleteWith(std::move(done)));
}

void LocalCluster::Stop() {
  for (ParameterServer* server : servers_) server->CloseBarriers();
}

StatusOr<SaveProgress> LocalCluster::SaveRows(const SaveRowsCall& call) {
  return rpc::asio::co_spawn(io_.executor(), worker_->rows().SaveRows(call, {Deadline()}),
                             rpc::asio::use_future)
      .get();
}

StatusOr<SaveProgress> LocalCluster::RestoreRows(const RestoreRowsCall& call) {
  return rpc::asio::co_spawn(io_.executor(), worker_->rows().RestoreRows(call, {Deadline()}),
                             rpc::asio::use_future)
      .get();
}

}  // namespace simurgh
