#include "bench/micro/ps/exchange.h"

#include <cstdlib>
#include <iostream>

#include <unistd.h>

#include "rpc/server.h"
#include "services/api/row_rpc.h"
#include "services/runtime/io_thread.h"

namespace simurgh::bench {
namespace {

constexpr char kExchange[] = "@exchange";

rpc::awaitable<StatusOr<rpc::Outgoing<api::PullRows::Response>>> AnswerPull(
    rpc::RequestOf<api::PullRows::Request> request) {
  uint64_t bytes = 0;
  for (const auto* group : *request.table().groups()) {
    const auto& counts = *group->counts();
    bytes += PayloadOf({.dim = group->dim(),
                        .counts = {counts.begin(), counts.end()},
                        .precision = static_cast<RowPrecision>(group->precision())})
                 .bytes;
  }
  const rpc::SegmentBuffer rows = request.Allocate(bytes);
  co_return api::Encode(PullReport(), {rows.bytes, rows.owner});
}

rpc::awaitable<StatusOr<rpc::Outgoing<api::PushRows::Response>>> AnswerPush(
    rpc::RequestOf<api::PushRows::Request> request) {
  co_return api::Encode(PushReport());
}

Status Serve(IoThread& io, std::unique_ptr<rpc::Server>& server, const std::string& address) {
  const rpc::Hello hello{.cluster = "bench", .role = "embedding-ps"};
  server = std::make_unique<rpc::Server>(io.executor(), hello, rpc::ServerOptions(), nullptr);
  rpc::Register(
      *server, api::kPullRows,
      [](const auto&, const auto&) -> StatusOr<rpc::Destinations<api::PullRows::Request>> {
        return rpc::Destinations<api::PullRows::Request>{
            rpc::SegmentDestination<uint64_t>::kAllocate};
      },
      [](auto request) { return AnswerPull(std::move(request)); });
  rpc::Register(
      *server, api::kPushRows,
      [](const auto&, const auto&) -> StatusOr<rpc::Destinations<api::PushRows::Request>> {
        return rpc::Destinations<api::PushRows::Request>{
            rpc::SegmentDestination<uint64_t>::kAllocate,
            rpc::SegmentDestination<std::byte>::kAllocate};
      },
      [](auto request) { return AnswerPush(std::move(request)); });
  return server->Listen(address);
}

}  // namespace

std::vector<std::string> ExchangeArguments(const std::string& address) {
  return {kExchange, address};
}

bool IsExchange(const std::vector<std::string>& arguments) {
  return arguments.size() == 2 && arguments[0] == kExchange;
}

int RunExchange(const std::vector<std::string>& arguments) {
  std::unique_ptr<rpc::Server> server;
  IoThread io("rpc");
  Status status;
  io.RunAndWait([&] {
    status = Serve(io, server, arguments[1]);
    if (status.ok()) std::cout << server->address() << std::endl;
  });
  if (!status.ok()) std::cerr << "bench_ps: " << status.ToString() << "\n";
  char ignored = 0;
  while (status.ok() && ::read(STDIN_FILENO, &ignored, 1) > 0) {
  }
  io.RunAndWait([&] { server.reset(); });
  return status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace simurgh::bench
