// A server at an address, and a client that calls it once: my_program [ADDRESS]. The exit code is 0
// if what the client sent came back.

#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "messages_generated.h"

#include "rpc/client.h"
#include "rpc/method.h"
#include "rpc/server.h"

namespace consumer {
namespace {

namespace rpc = simurgh::rpc;
using simurgh::Status;
using simurgh::StatusOr;

using Message = rpc::MessageOf<wire::Greeting, rpc::Segment<"tensor", float>>;
constexpr rpc::MethodOf<Message, Message> kEcho{.number = 1, .name = "echo"};

// The destination of the request's tensor. The table is verified, the payload not yet read.
StatusOr<rpc::Destinations<Message>> Place(const wire::Greeting& /*greeting*/,
                                           const Message::Counts& counts) {
  const auto tensor = std::make_shared<std::vector<float>>(counts[0]);
  return rpc::Destinations<Message>{{*tensor, tensor}};
}

// Sends the request's tensor back without a copy.
rpc::awaitable<StatusOr<rpc::Outgoing<Message>>> Handle(rpc::RequestOf<Message> request) {
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString(request.table().text());
  const auto root = wire::CreateGreeting(builder, text);
  co_return rpc::Outgoing<Message>(builder, root,
                                   {request.segment<"tensor">(), request.owner<"tensor">()});
}

rpc::awaitable<Status> CallOnce(rpc::Client& client) {
  const std::vector<float> tensor{1.5F, 2.5F};
  std::vector<float> echoed(tensor.size());
  flatbuffers::FlatBufferBuilder builder;
  const auto root = wire::CreateGreeting(builder, builder.CreateString("hello"));
  const auto deadline = rpc::Clock::now() + std::chrono::seconds(60);
  const auto response =
      co_await rpc::Call(client, kEcho, {builder, root, {tensor}}, {{echoed}}, deadline);
  if (!response.ok()) co_return response.status();
  const bool same = response->table().text()->str() == "hello" && echoed == tensor;
  co_return same ? absl::OkStatus() : absl::DataLossError("what came back is not what was sent");
}

Status Run(const std::string& address) {
  rpc::asio::io_context context(1);
  rpc::Server server(context.get_executor(), {.cluster = "consumer", .role = "server"}, {},
                     nullptr);
  rpc::Register(server, kEcho, Place, Handle);
  SIMURGH_RETURN_IF_ERROR(server.Listen(address));
  rpc::Client client(context.get_executor(), server.address(),
                     {.cluster = "consumer", .role = "client"}, {}, nullptr);
  Status status;
  const auto call = [&]() -> rpc::awaitable<void> {
    status = co_await CallOnce(client);
    client.Stop();
    co_await server.Drain(rpc::Clock::now() + std::chrono::seconds(1));
  };
  rpc::asio::co_spawn(context, call(), rpc::asio::detached);
  context.run();
  return status;
}

}  // namespace
}  // namespace consumer

int main(int argc, char** argv) {
  const simurgh::Status status = consumer::Run(argc > 1 ? argv[1] : "tcp://127.0.0.1:0");
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
