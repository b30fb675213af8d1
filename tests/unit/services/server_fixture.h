#pragma once

#include <memory>
#include <string>
#include <utility>

#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "rpc/server.h"
#include "services/embedding_ps/row_methods.h"
#include "services/runtime/io_thread.h"
#include "tests/unit/services/hello.h"

namespace simurgh {

inline constexpr uint64_t kMapVersion = 9;

// A parameter server that listens. Its clients end before it does.
class ServerFixture {
 public:
  ServerFixture(ClusterConfig cluster, const std::string& address,
                const rpc::ServerOptions& options = {})
      : config(std::move(cluster)) {
    Status listening;
    io.RunAndWait([&] {
      listener =
          std::make_unique<rpc::Server>(io.executor(), HelloOf("embedding-ps"), options, nullptr);
      RegisterRowMethods(*listener, *rows, runs, buffers, kMapVersion);
      listening = listener->Listen(address);
    });
    REQUIRE(listening == absl::OkStatus());
  }

  ~ServerFixture() {
    io.RunAndWait([this] { listener.reset(); });
  }

  template <typename Task>
  auto Start(Task task) {
    return rpc::asio::co_spawn(io.executor(), std::move(task), rpc::asio::use_future);
  }

  const ClusterConfig config;
  MetricRegistry registry;
  ServerMetrics metrics{registry, config};
  BufferPool buffers{size_t{1} << 20};
  RunGuard runs{config.embedding_ps};
  IoThread io{"server"};
  std::unique_ptr<ParameterServer> rows = ParameterServer::Create(config, metrics).value();
  std::unique_ptr<rpc::Server> listener;
};

}  // namespace simurgh
