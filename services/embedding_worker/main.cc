// embedding-worker: the tier between trainers and parameter servers.

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <boost/asio/thread_pool.hpp>

#include "embedding/bucket_map.h"
#include "services/api/row_rpc.h"
#include "services/embedding_worker/embedding_worker.h"
#include "services/runtime/daemon.h"
#include "services/runtime/listener.h"
#include "services/runtime/peer_monitor.h"

namespace simurgh {
namespace {

constexpr std::chrono::milliseconds kExpiryInterval{100};

class EmbeddingWorkerDaemon : public Daemon {
 public:
  static StatusOr<std::unique_ptr<Daemon>> Start(DaemonContext& context) {
    std::unique_ptr<EmbeddingWorkerDaemon> daemon(new EmbeddingWorkerDaemon(context));
    SIMURGH_RETURN_IF_ERROR(daemon->listener_.Listen(context, [&](rpc::Server& server) {
      RegisterBatchMethods(server, *daemon->worker_);
      rpc::asio::co_spawn(daemon->listener_.thread().executor(), ExpireBatches(daemon->worker_),
                          rpc::asio::detached);
    }));
    daemon->monitor_ = std::make_unique<PeerMonitor>(
        context,
        PeerMonitor::PeersOf(context, "embedding-ps", context.config().embedding_ps.instances));
    context.SetReady();
    return std::move(daemon);
  }

  // The worker's clients must be destroyed on the listener's thread.
  ~EmbeddingWorkerDaemon() override {
    listener_.Close();
    compute_.join();
    listener_.thread().RunAndWait([this] { worker_.reset(); });
  }

  void Drain(std::chrono::steady_clock::time_point deadline) override { listener_.Drain(deadline); }

 private:
  explicit EmbeddingWorkerDaemon(DaemonContext& context)
      : metrics_(context.metrics(), context.config()),
        observer_(context.metrics(), RpcSide::kClient),
        compute_(context.config().embedding_worker.threads),
        listener_(context) {
    worker_ =
        std::make_shared<EmbeddingWorker>(context.config(), context.hello().incarnation,
                                          compute_.get_executor(), MakeServers(context), metrics_);
  }

  std::vector<std::unique_ptr<RowPort>> MakeServers(const DaemonContext& context) {
    const ClusterConfig& config = context.config();
    std::vector<std::unique_ptr<RowPort>> servers;
    for (size_t i = 0; i < config.embedding_ps.instances.size(); ++i) {
      auto clients = std::make_unique<PeerClients>(
          listener_.thread().executor(), config.embedding_ps.instances[i].address, context.hello(),
          OptionsFor(context.rpc_options().client, "embedding-ps", config.embedding_ps.instances,
                     i),
          &observer_);
      servers.push_back(std::make_unique<RowClient>(absl::StrCat("embedding-ps ", i),
                                                    std::move(clients), MapOf(config).version()));
    }
    return servers;
  }

  static rpc::awaitable<void> ExpireBatches(std::weak_ptr<EmbeddingWorker> weak) {
    rpc::asio::steady_timer timer(co_await rpc::asio::this_coro::executor);
    while (auto worker = weak.lock()) {
      worker->ExpireBatches();
      worker.reset();  // Do not extend its life over the pause.
      timer.expires_after(kExpiryInterval);
      co_await timer.async_wait(rpc::asio::use_awaitable);
    }
  }

  WorkerMetrics metrics_;
  RpcMetrics observer_;
  std::shared_ptr<EmbeddingWorker> worker_;
  rpc::asio::thread_pool compute_;
  Listener listener_;  // Its handlers use the members above.
  std::unique_ptr<PeerMonitor> monitor_;
};

}  // namespace
}  // namespace simurgh

int main(int argc, char** argv) {
  const simurgh::DaemonDescription description{
      .role = "embedding-worker",
      .usage =
          {.program = "embedding-worker",
           .summary =
               "Embedding worker of a Simurgh cluster: deduplicates the ids of batches, pulls and "
               "pools their rows, and sums gradients per row."},
      .instances_key = "embedding_worker.instances",
      .instances = [](const simurgh::ClusterConfig& config) -> const auto& {
        return config.embedding_worker.instances;
      }};
  return simurgh::RunDaemon(description, argc, argv, simurgh::EmbeddingWorkerDaemon::Start);
}
