#include "services/nn_worker/remote_cluster.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace simurgh {

RemoteCluster::RemoteCluster(DaemonContext& context, const LearningRates& rates)
    : observer_(context.metrics(), RpcSide::kClient), thread_("rpc", context.config().rpc.spin) {
  const ClusterConfig& config = context.config();
  rpc::Hello hello = context.hello();
  hello.run = hello.incarnation;
  std::vector<std::unique_ptr<PeerClients>> workers;
  const std::vector<InstanceConfig>& peers = config.embedding_worker.instances;
  for (size_t i = 0; i < peers.size(); ++i) {
    workers.push_back(std::make_unique<PeerClients>(
        thread_.executor(), peers[i].address, hello,
        OptionsFor(context.rpc_options().client, "embedding-worker", peers, i), &observer_));
  }
  client_ = std::make_unique<BatchClient>(thread_.executor(), std::move(workers), config, rates);
  if (config.training.mode != TrainingConfig::Mode::kAsync) return;
  std::vector<std::unique_ptr<DenseServer>> servers;
  for (size_t i = 0; i < config.embedding_ps.instances.size(); ++i) {
    auto client = std::make_unique<rpc::Client>(
        thread_.executor(), config.embedding_ps.instances[i].address, hello,
        OptionsFor(context.rpc_options().client, "embedding-ps", config.embedding_ps.instances, i),
        &observer_);
    servers.push_back(
        std::make_unique<RemoteDenseServer>(absl::StrCat("embedding-ps ", i), std::move(client)));
  }
  dense_ = std::make_unique<DenseClient>(thread_.executor(), std::move(servers),
                                         config.rpc.call_timeout);
}

// The clients' executor thread destroys them.
RemoteCluster::~RemoteCluster() {
  thread_.RunAndWait([this] {
    client_.reset();
    dense_.reset();
  });
}

}  // namespace simurgh
