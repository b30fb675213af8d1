// A server and a client that calls it once; the exit code is 0 if the request came back as it was.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <utility>

#include "rpc/client.h"
#include "rpc/server.h"

namespace {

namespace rpc = simurgh::rpc;

constexpr rpc::MethodId kEcho{.number = 1, .name = "echo"};

rpc::asio::awaitable<simurgh::StatusOr<rpc::OutgoingMessage>> Answer(rpc::Request request) {
  rpc::OutgoingMessage response;
  for (rpc::ReceivedSegment& segment : request.message.segments) {
    response.segments.push_back({.bytes = segment.bytes, .owner = std::move(segment.owner)});
  }
  co_return response;
}

rpc::asio::awaitable<simurgh::Status> CallOnce(rpc::Client& client) {
  constexpr std::array<std::byte, 3> kTensor{std::byte{1}, std::byte{2}, std::byte{3}};
  rpc::OutgoingMessage request;
  request.segments.push_back({.bytes = kTensor});
  const auto response = co_await client.Call(kEcho, std::move(request), rpc::Anywhere(1),
                                             rpc::Clock::now() + std::chrono::seconds(60));
  if (!response.ok()) co_return response.status();
  const bool same =
      response->segments.size() == 1 && std::ranges::equal(response->segments[0].bytes, kTensor);
  co_return same ? absl::OkStatus() : absl::DataLossError("the response is not the request");
}

simurgh::Status Run() {
  rpc::asio::io_context context(1);
  rpc::Server server(context.get_executor(), {.cluster = "consumer", .role = "server"}, {},
                     nullptr);
  server.Register({.id = kEcho, .placement = rpc::Anywhere(1), .handle = Answer});
  SIMURGH_RETURN_IF_ERROR(server.Listen("tcp://127.0.0.1:0"));
  rpc::Client client(context.get_executor(), server.address(),
                     {.cluster = "consumer", .role = "client"}, {}, nullptr);
  simurgh::Status status;
  const auto call = [&]() -> rpc::asio::awaitable<void> {
    status = co_await CallOnce(client);
    client.Stop();
    co_await server.Drain(rpc::Clock::now() + std::chrono::seconds(1));
  };
  rpc::asio::co_spawn(context, call(), rpc::asio::detached);
  context.run();
  return status;
}

}  // namespace

int main() {
  const simurgh::Status status = Run();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
