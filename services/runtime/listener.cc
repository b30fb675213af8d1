#include "services/runtime/listener.h"

#include "absl/strings/str_cat.h"
#include <boost/asio/use_future.hpp>

#include "simurgh/base/log.h"

namespace simurgh {
namespace {

// Names the configuration key and the remedy.
Status Explain(const Status& status, const InstanceConfig& instance) {
  if (absl::IsFailedPrecondition(status)) {
    return absl::InvalidArgumentError(absl::StrCat(
        instance.listen_key, ": ", instance.listens_at(),
        " is reachable from other machines, but rpc.security is loopback; listen on a loopback "
        "address, or set rpc.security: tls with files in rpc.tls, or rpc.security: insecure with "
        "cluster.token_file in a trusted network"));
  }
  if (absl::IsResourceExhausted(status)) return Annotate(status, instance.listen_key);
  return Status(status.code(),
                absl::StrCat(instance.listen_key, ": ", status.message(),
                             "; stop the process that listens there, or choose another address"));
}

}  // namespace

Listener::Listener(DaemonContext& context)
    : observer_(context.metrics(), RpcSide::kServer), thread_("rpc", context.config().rpc.spin) {}

Listener::~Listener() { Close(); }

void Listener::Close() {
  // Only its own thread may destroy the server.
  thread_.RunAndWait([this] { server_.reset(); });
}

Status Listener::Listen(const DaemonContext& context, const rpc::ServerOptions& options,
                        const std::function<void(rpc::Server&)>& register_methods) {
  Status status;
  thread_.RunAndWait([&] {
    server_ =
        std::make_unique<rpc::Server>(thread_.executor(), context.hello(), options, &observer_);
    register_methods(*server_);
    status = server_->Listen(context.instance().listens_at());
  });
  if (!status.ok()) return Explain(status, context.instance());
  spdlog::info("listening at {}", server_->address());
  return absl::OkStatus();
}

void Listener::Drain(std::chrono::steady_clock::time_point deadline) {
  const auto drain = [&]() -> rpc::awaitable<void> { co_await server_->Drain(deadline); };
  rpc::asio::co_spawn(thread_.executor(), drain, rpc::asio::use_future).get();
}

}  // namespace simurgh
