// Calls the echo once: echo_client ADDRESS.

#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "rpc/examples/echo_method.h"

namespace example {
namespace {

using simurgh::Status;

rpc::awaitable<Status> CallEcho(rpc::Client& client) {
  const std::vector<float> tensor(1'000'000, 1.5F);
  std::vector<float> echoed(tensor.size());
  flatbuffers::FlatBufferBuilder builder;
  const auto root = wire::CreateEchoRequest(builder, builder.CreateString("hello"));
  const auto deadline = rpc::Clock::now() + std::chrono::seconds(5);
  const auto response =
      co_await rpc::Call(client, kEcho, {builder, root, {tensor}}, {{echoed}}, deadline);
  if (!response.ok()) co_return response.status();
  std::cout << response->table().text()->str() << ": " << echoed.size() << " values, "
            << (echoed == tensor ? "unchanged" : "changed") << "\n";
  co_return absl::OkStatus();
}

Status Run(const std::string& address) {
  rpc::asio::io_context context(1);
  rpc::Client client(context.get_executor(), address, {.cluster = "example", .role = "echo-client"},
                     {}, nullptr);
  Status status;
  const auto call = [&]() -> rpc::awaitable<void> {
    status = co_await CallEcho(client);
    client.Stop();
  };
  rpc::asio::co_spawn(context, call(), rpc::asio::detached);
  context.run();
  return status;
}

}  // namespace
}  // namespace example

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--help") {
    std::cout << "Usage: echo_client [ADDRESS]: calls the echo once, at tcp://127.0.0.1:7000 by "
                 "default\n";
    return 0;
  }
  const simurgh::Status status = example::Run(argc > 1 ? argv[1] : "tcp://127.0.0.1:7000");
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
