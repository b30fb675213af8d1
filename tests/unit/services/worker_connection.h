#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "services/api/batch_rpc.h"
#include "services/embedding_worker/embedding_worker.h"
#include "services/runtime/io_thread.h"
#include "tests/unit/services/hello.h"

namespace simurgh {

// An embedding worker's listener, and a trainer's client of it, on the worker's thread.
class WorkerConnection {
 public:
  // observer: of the listener. Lifetime: all outlive this.
  WorkerConnection(EmbeddingWorker& worker, ClusterConfig config, IoThread& io,
                   const rpc::ServerOptions& options = {}, rpc::Observer* observer = nullptr)
      : learning_rates(config.tables), io_(io) {
    config.rpc.call_timeout = std::chrono::seconds(60);
    Status listening;
    io_.RunAndWait([&] {
      listener = std::make_unique<rpc::Server>(io_.executor(), HelloOf("embedding-worker"), options,
                                               observer);
      RegisterBatchMethods(*listener, worker);
      listening = listener->Listen("127.0.0.1:0");
      std::vector<std::unique_ptr<PeerClients>> workers;
      workers.push_back(std::make_unique<PeerClients>(io_.executor(), listener->address(),
                                                      HelloOf("nn-worker"), rpc::ClientOptions(),
                                                      nullptr));
      client =
          std::make_unique<BatchClient>(io_.executor(), std::move(workers), config, learning_rates);
    });
    REQUIRE(listening == absl::OkStatus());
  }

  ~WorkerConnection() {
    io_.RunAndWait([this] {
      client.reset();
      listener.reset();
    });
  }

  LearningRates learning_rates;
  std::unique_ptr<rpc::Server> listener;
  std::unique_ptr<BatchClient> client;

 private:
  IoThread& io_;
};

// Waits for the argument of the callback passed to `call`.
template <typename Result, typename Call>
Result Wait(const Call& call) {
  std::promise<Result> result;
  call([&](Result value) { result.set_value(std::move(value)); });
  return result.get_future().get();
}

}  // namespace simurgh
