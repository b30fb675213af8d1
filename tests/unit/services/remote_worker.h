#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "services/api/batch_client.h"
#include "services/embedding_worker/batch_methods.h"
#include "tests/unit/services/hello.h"
#include "tests/unit/services/worker_fixture.h"

namespace simurgh {

// A worker that listens, and a trainer's client of it.
class RemoteWorker : public WorkerFixture {
 public:
  // observer: of the worker's end; outlives this.
  explicit RemoteWorker(ClusterConfig cluster = SmallCluster(),
                        const rpc::ServerOptions& options = {}, rpc::Observer* observer = nullptr)
      : WorkerFixture(std::move(cluster)) {
    io.RunAndWait([&] {
      listener = std::make_unique<rpc::Server>(io.executor(), HelloOf("embedding-worker"), options,
                                               observer);
      RegisterBatchMethods(*listener, *worker);
      REQUIRE(listener->Listen("127.0.0.1:0") == absl::OkStatus());
      std::vector<std::unique_ptr<PeerClients>> workers;
      workers.push_back(std::make_unique<PeerClients>(
          io.executor(), listener->address(), HelloOf("nn-worker"), rpc::ClientOptions(), nullptr));
      client =
          std::make_unique<BatchClient>(io.executor(), compute.get_executor(), std::move(workers),
                                        std::chrono::seconds(60), learning_rates, wire);
    });
  }

  ~RemoteWorker() {
    io.RunAndWait([this] {
      client.reset();
      listener.reset();
    });
  }

  // What `call` hands to the function that it is given.
  template <typename Result, typename Call>
  static Result Wait(const Call& call) {
    std::promise<Result> result;
    call([&](Result value) { result.set_value(std::move(value)); });
    return result.get_future().get();
  }

  const LearningRates learning_rates{config.tables};
  VectorWire wire{config};
  std::unique_ptr<rpc::Server> listener;
  std::unique_ptr<BatchClient> client;
};

}  // namespace simurgh
