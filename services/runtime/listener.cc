#include "services/runtime/listener.h"

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include <boost/asio/use_future.hpp>

namespace simurgh {
Listener::Listener(MetricRegistry& registry) : observer_(registry, RpcSide::kServer) {}

Listener::~Listener() { Close(); }

void Listener::Close() {
  // The server belongs to its thread, so it goes there.
  thread_.RunAndWait([this] { server_.reset(); });
}

Status Listener::Listen(const DaemonContext& context,
                        const std::function<void(rpc::Server&)>& register_methods) {
  Status status;
  thread_.RunAndWait([&] {
    server_ = std::make_unique<rpc::Server>(
        thread_.executor(), context.hello(),
        rpc::ServerOptions{.max_frame_bytes = context.config().rpc.max_frame_bytes}, &observer_);
    register_methods(*server_);
    status = server_->Listen(context.instance().address);
  });
  if (!status.ok()) {
    return Status(status.code(),
                  absl::StrCat(context.instance().address_key, ": ", status.message(),
                               "; stop what listens there or choose another address"));
  }
  spdlog::info("listening at {}", server_->address());
  return absl::OkStatus();
}

Status Listener::Drain(std::chrono::steady_clock::time_point deadline) {
  const auto drain = [&]() -> rpc::awaitable<void> { co_await server_->Drain(deadline); };
  rpc::asio::co_spawn(thread_.executor(), drain, rpc::asio::use_future).get();
  return absl::OkStatus();
}

}  // namespace simurgh
