// embedding-ps: the parameter server of embedding rows.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <boost/program_options/value_semantic.hpp>

#include "base/log.h"
#include "config/cluster_config.h"
#include "embedding/bucket_map.h"
#include "rpc/server.h"
#include "services/embedding_ps/dense_methods.h"
#include "services/embedding_ps/parameter_server.h"
#include "services/embedding_ps/row_methods.h"
#include "services/runtime/daemon.h"
#include "services/runtime/listener.h"

namespace simurgh {
namespace {

// Idle memory kept in the pool of request and response buffers.
constexpr size_t kIdleBufferBytes = size_t{256} << 20;

class EmbeddingPs : public Daemon {
 public:
  // with_digests: whether to log digests of all rows when stopping.
  static StatusOr<std::unique_ptr<Daemon>> Start(DaemonContext& context, bool with_digests) {
    std::unique_ptr<EmbeddingPs> daemon(new EmbeddingPs(context, with_digests));
    SIMURGH_ASSIGN_OR_RETURN(
        daemon->rows_,
        ParameterServer::Create(context.config(), daemon->metrics_, context.index()));
    daemon->rows_->SetFatal([&context](const Status& reason) { context.Fail(reason); });
    rpc::ServerOptions options = context.rpc_options().server;
    options.peer_bytes = PeerBytes(context.config().embedding_ps.memory_budget);
    SIMURGH_RETURN_IF_ERROR(daemon->listener_.Listen(context, options, [&](rpc::Server& server) {
      RegisterRowMethods(server, *daemon->rows_, daemon->runs_, daemon->buffers_,
                         MapOf(context.config()).version());
      RegisterDenseMethods(server, daemon->dense_, daemon->runs_, daemon->buffers_);
    }));
    context.SetReady();
    return std::move(daemon);
  }

  ~EmbeddingPs() override { listener_.Close(); }

  void Drain(std::chrono::steady_clock::time_point deadline) override {
    rows_->CloseBarriers();
    listener_.Drain(deadline);
    if (!with_digests_) return;
    const std::vector<uint64_t> digests = rows_->ContentDigests();
    for (size_t t = 0; t < digests.size(); ++t) {
      spdlog::info("rows of table {}: digest {:016x}", tables_[t].name, digests[t]);
    }
  }

 private:
  EmbeddingPs(DaemonContext& context, bool with_digests)
      : tables_(context.config().tables),
        with_digests_(with_digests),
        metrics_(context.metrics(), context.config()),
        runs_(context.config().embedding_ps),
        listener_(context),
        dense_(context.metrics()) {}

  const std::vector<TableConfig>& tables_;
  const bool with_digests_;
  ServerMetrics metrics_;
  BufferPool buffers_{kIdleBufferBytes};
  RunGuard runs_;
  Listener listener_;
  // Declared after listener_, because the threads of both post to it until they end.
  std::unique_ptr<ParameterServer> rows_;
  DenseStore dense_;
};

}  // namespace
}  // namespace simurgh

int main(int argc, char** argv) {
  bool with_digests = false;
  simurgh::DaemonDescription description{
      .role = "embedding-ps",
      .usage =
          {.program = "embedding-ps",
           .summary =
               "Parameter server of a Simurgh cluster: stores embedding rows in "
               "memory, applies the sparse optimizer and evicts the least recently used rows."},
      .instances_key = "embedding_ps.instances",
      .instances = [](const simurgh::ClusterConfig& config) -> const auto& {
        return config.embedding_ps.instances;
      }};
  description.check = [](const simurgh::ClusterConfig& config) {
    simurgh::MetricRegistry registry;
    simurgh::ServerMetrics metrics(registry, config);
    return simurgh::ParameterServer::Create(config, metrics).status();
  };
  description.usage.own_options.add_options()(
      "digests", boost::program_options::bool_switch(&with_digests),
      "log a digest of every table's rows at shutdown; the sum over all servers is equal for "
      "equal rows");
  return simurgh::RunDaemon(description, argc, argv, [&](simurgh::DaemonContext& context) {
    return simurgh::EmbeddingPs::Start(context, with_digests);
  });
}
