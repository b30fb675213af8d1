#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "rpc/server.h"
#include "services/nn_worker/loader_methods.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/rpc_setup.h"

namespace simurgh {

// An nn-worker as loaders see it.
class TrainerEnd {
 public:
  // The capacity is one batch per loader. begin: as for LoaderBuffer.
  explicit TrainerEnd(const ClusterConfig& config, uint32_t rank = 0,
                      const DataPosition& begin = {})
      : buffer_(config.loaders.instances.size(), /*capacity_batches=*/1,
                config.loaders.feed_buffer_bytes, std::chrono::seconds(60), begin) {
    service_.emplace(config, rank, buffer_, registry_, thread_.executor());
    thread_.RunAndWait([&] {
      rpc::Hello hello;
      hello.cluster = config.name;
      hello.role = "nn-worker";
      hello.index = rank;
      hello.incarnation = 1;
      hello.configuration = ClusterAgreement(config);
      server_ = std::make_unique<rpc::Server>(thread_.executor(), hello,
                                              MakeRpcOptions(config.rpc)->server, nullptr);
      service_->Register(*server_);
      REQUIRE(server_->Listen(config.nn_worker.instances[rank].address).ok());
    });
  }

  ~TrainerEnd() {
    buffer_.Fail("the test is over");
    const auto drain = [this]() -> rpc::awaitable<void> {
      co_await server_->Drain(rpc::Clock::now() + std::chrono::seconds(10));
    };
    rpc::asio::co_spawn(thread_.executor(), drain, rpc::asio::use_future).get();
    thread_.RunAndWait([this] { server_.reset(); });
  }

  LoaderBuffer& buffer() { return buffer_; }

  // Times that a batch had to wait.
  uint64_t waits() const { return waits_.value(); }

 private:
  MetricRegistry registry_;
  const Counter& waits_ = registry_.Get(LoaderService::kFeedWaitsTotal);
  LoaderBuffer buffer_;
  std::unique_ptr<rpc::Server> server_;
  IoThread thread_{"trainer"};
  std::optional<LoaderService> service_;
};

}  // namespace simurgh
