#include "services/runtime/listener.h"

#include "absl/strings/str_cat.h"
#include <boost/asio/use_future.hpp>

#include "simurgh/base/log.h"

namespace simurgh {
namespace {

// Why a daemon cannot listen, in words of its configuration.
Status Explain(const Status& status, const InstanceConfig& instance) {
  if (absl::IsFailedPrecondition(status)) {
    return absl::InvalidArgumentError(absl::StrCat(
        instance.address_key, ": ", instance.address,
        " can be reached from other machines, and rpc.security is loopback; set rpc.security: tls "
        "with files in rpc.tls, or rpc.security: insecure in a network that you trust, or listen "
        "on a loopback address"));
  }
  return Status(status.code(), absl::StrCat(instance.address_key, ": ", status.message(),
                                            "; stop what listens there or choose another address"));
}

}  // namespace

Listener::Listener(DaemonContext& context)
    : observer_(context.metrics(), RpcSide::kServer), thread_("rpc", context.config().rpc.spin) {}

Listener::~Listener() { Close(); }

void Listener::Close() {
  // The server belongs to its thread, so it goes there.
  thread_.RunAndWait([this] { server_.reset(); });
}

Status Listener::Listen(const DaemonContext& context,
                        const std::function<void(rpc::Server&)>& register_methods) {
  Status status;
  thread_.RunAndWait([&] {
    server_ = std::make_unique<rpc::Server>(thread_.executor(), context.hello(),
                                            context.rpc_options().server, &observer_);
    register_methods(*server_);
    status = server_->Listen(context.instance().address);
  });
  if (!status.ok()) return Explain(status, context.instance());
  spdlog::info("listening at {}", server_->address());
  return absl::OkStatus();
}

Status Listener::Drain(std::chrono::steady_clock::time_point deadline) {
  const auto drain = [&]() -> rpc::awaitable<void> { co_await server_->Drain(deadline); };
  rpc::asio::co_spawn(thread_.executor(), drain, rpc::asio::use_future).get();
  return absl::OkStatus();
}

}  // namespace simurgh
