#include "services/runtime/listener.h"

#include "absl/strings/str_cat.h"
#include <boost/asio/use_future.hpp>

#include "services/runtime/own_host.h"
#include "services/runtime/ready_method.h"
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

rpc::awaitable<StatusOr<rpc::Outgoing<Ready::Response>>> OnReady(const DaemonContext& context) {
  const Readiness readiness = context.readiness();
  if (readiness.ready) co_return rpc::Outgoing<Ready::Response>();
  const Status waiting = context.waiting();
  const bool is_refused = absl::IsInvalidArgument(waiting) || absl::IsUnauthenticated(waiting);
  co_return Status(
      is_refused ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kFailedPrecondition,
      readiness.reason);
}

}  // namespace

Listener::Listener(DaemonContext& context)
    : observer_(context.metrics(), RpcSide::kServer), thread_("rpc", context.config().rpc.spin) {}

Listener::~Listener() { Close(); }

void Listener::Close() {
  // Only its own thread may destroy the server.
  thread_.RunAndWait([this] { server_.reset(); });
}

Status Listener::Listen(DaemonContext& context, const rpc::ServerOptions& options,
                        const std::function<void(rpc::Server&)>& register_methods) {
  const InstanceConfig& instance = context.instance();
  SIMURGH_RETURN_IF_ERROR(AwaitOwnHost(context, instance.listen_key, instance.listens_at()));
  Status status;
  thread_.RunAndWait([&] {
    server_ =
        std::make_unique<rpc::Server>(thread_.executor(), context.hello(), options, &observer_);
    register_methods(*server_);
    rpc::Register(*server_, kReady, [&context](auto /*request*/) { return OnReady(context); });
    status = server_->Listen(instance.listens_at());
  });
  if (!status.ok()) return Explain(status, instance);
  spdlog::info("listening at {}", server_->address());
  return absl::OkStatus();
}

void Listener::Drain(std::chrono::steady_clock::time_point deadline) {
  const auto drain = [&]() -> rpc::awaitable<void> { co_await server_->Drain(deadline); };
  rpc::asio::co_spawn(thread_.executor(), drain, rpc::asio::use_future).get();
}

}  // namespace simurgh
