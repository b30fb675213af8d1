// embedding-ps: holds rows and serves them.

#include <memory>
#include <utility>

#include "services/api/layout.h"
#include "services/embedding_ps/parameter_server.h"
#include "services/embedding_ps/row_methods.h"
#include "services/runtime/daemon.h"
#include "services/runtime/listener.h"

namespace simurgh {
namespace {

// Idle memory kept for requests and responses.
constexpr size_t kIdleBufferBytes = size_t{256} << 20;

class EmbeddingPs : public Daemon {
 public:
  static StatusOr<std::unique_ptr<Daemon>> Start(DaemonContext& context) {
    std::unique_ptr<EmbeddingPs> daemon(new EmbeddingPs(context));
    SIMURGH_ASSIGN_OR_RETURN(
        daemon->rows_,
        ParameterServer::Create(context.config(), context.index(), daemon->metrics_));
    daemon->rows_->SetFatal([&context](const Status& reason) { context.Fail(reason); });
    SIMURGH_RETURN_IF_ERROR(daemon->listener_.Listen(context, [&](rpc::Server& server) {
      RegisterRowMethods(server, *daemon->rows_, daemon->buffers_,
                         MapOf(context.config()).version());
    }));
    context.SetReady();
    return std::move(daemon);
  }

  // Partitions' threads end before the listener's, to which they answer.
  ~EmbeddingPs() override {
    listener_.Close();
    rows_.reset();
  }

  Status Drain(std::chrono::steady_clock::time_point deadline) override {
    rows_->StopHolding();
    return listener_.Drain(deadline);
  }

 private:
  explicit EmbeddingPs(DaemonContext& context)
      : metrics_(context.metrics(), context.config(), context.index()),
        listener_(context.metrics()) {}

  ServerMetrics metrics_;
  BufferPool buffers_{kIdleBufferBytes};
  std::unique_ptr<ParameterServer> rows_;
  Listener listener_;
};

}  // namespace
}  // namespace simurgh

int main(int argc, char** argv) {
  const simurgh::DaemonDescription description{
      .role = "embedding-ps",
      .usage =
          {.program = "embedding-ps",
           .summary =
               "Parameter server of a Simurgh cluster: holds embedding rows in memory, looks them "
               "up, applies the sparse optimizer, evicts the least recently used."},
      .section = "embedding_ps",
      .instances = [](const simurgh::ClusterConfig& config) -> const auto& {
        return config.embedding_ps.instances;
      }};
  return simurgh::RunDaemon(description, argc, argv, simurgh::EmbeddingPs::Start);
}
