#include "rpc/testing/proxy.h"

#include <utility>

namespace simurgh::rpc::testing {
struct Proxy::Route {
  const Carry carry;
  Address target;
};

Proxy::Proxy(asio::any_io_executor executor, Carry carry)
    : executor_(std::move(executor)), route_(std::make_shared<Route>(std::move(carry))) {}

Proxy::~Proxy() {
  if (listener_ != nullptr) listener_->Close();
}

Status Proxy::Listen(const std::string& address) {
  SIMURGH_ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  SIMURGH_ASSIGN_OR_RETURN(listener_, Listener::Open(executor_, parsed));
  asio::co_spawn(executor_, AcceptLoop(route_, listener_), asio::detached);
  return absl::OkStatus();
}

void Proxy::SetTarget(const std::string& address) {
  route_->target = ParseAddress(address).value();
}

awaitable<void> Proxy::AcceptLoop(std::shared_ptr<Route> route,
                                  std::shared_ptr<Listener> listener) {
  for (;;) {
    StatusOr<Socket> client = co_await listener->Accept();
    if (!client.ok()) co_return;
    const auto executor = client->get_executor();
    asio::co_spawn(executor, Serve(route, *std::move(client)), asio::detached);
  }
}

awaitable<void> Proxy::Serve(std::shared_ptr<Route> route, Socket client) {
  const Address target = route->target;
  StatusOr<Socket> server = co_await Connect(target, Clock::now() + std::chrono::seconds(10));
  if (!server.ok()) co_return;  // Closes the client's end.
  route->carry(std::move(client), *std::move(server));
}

void Proxy::EndDirection(Socket& from, Socket& to) {
  boost::system::error_code ignored;
  to.shutdown(Socket::shutdown_send, ignored);
  from.shutdown(Socket::shutdown_receive, ignored);
}

void Proxy::CloseBoth(Socket& one, Socket& other) {
  boost::system::error_code ignored;
  one.close(ignored);
  other.close(ignored);
}

}  // namespace simurgh::rpc::testing
