// Serves the echo until SIGINT or SIGTERM: echo_server [ADDRESS]. Prints its address.

#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/signal_set.hpp>

#include "rpc/examples/echo_method.h"

namespace example {
namespace {

using simurgh::Status;
using simurgh::StatusOr;

// The destination of the request's tensor. The table is verified, the payload not yet read.
StatusOr<rpc::Destinations<Echo::Request>> Place(const wire::EchoRequest& request,
                                                 const Echo::Request::Counts& counts) {
  const auto tensor = std::make_shared<std::vector<float>>(counts[0]);
  return rpc::Destinations<Echo::Request>{{*tensor, tensor}};
}

// Sends the request's tensor back without a copy.
rpc::awaitable<StatusOr<rpc::Outgoing<Echo::Response>>> Handle(
    rpc::RequestOf<Echo::Request> request) {
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString(request.table().text()->str() + " yourself");
  const auto root = wire::CreateEchoResponse(builder, text);
  co_return rpc::Outgoing<Echo::Response>(builder, root,
                                          {request.segment<"tensor">(), request.owner<"tensor">()});
}

Status Serve(const std::string& address) {
  rpc::asio::io_context context(1);
  rpc::Server server(context.get_executor(), {.cluster = "example", .role = "echo-server"}, {},
                     nullptr);
  rpc::Register(server, kEcho, Place, Handle);
  SIMURGH_RETURN_IF_ERROR(server.Listen(address));
  std::cout << server.address() << std::endl;

  const auto drain = [&]() -> rpc::awaitable<void> {
    co_await server.Drain(rpc::Clock::now() + std::chrono::seconds(1));
  };
  rpc::asio::signal_set stop(context, SIGINT, SIGTERM);
  stop.async_wait(
      [&](const auto&, int) { rpc::asio::co_spawn(context, drain(), rpc::asio::detached); });
  context.run();  // Returns when the server has stopped.
  return absl::OkStatus();
}

}  // namespace
}  // namespace example

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--help") {
    std::cout << "Usage: echo_server [ADDRESS]: serves the echo, at any free port of 127.0.0.1 by "
                 "default\n";
    return 0;
  }
  const simurgh::Status status = example::Serve(argc > 1 ? argv[1] : "tcp://127.0.0.1:0");
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
