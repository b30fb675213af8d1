#pragma once

#include <utility>

#include "tests/unit/services/worker_connection.h"
#include "tests/unit/services/worker_fixture.h"

namespace simurgh {

// A worker that listens, and a trainer's client of it.
class RemoteWorker : public WorkerFixture {
 public:
  // observer: of the worker's end; outlives this.
  explicit RemoteWorker(ClusterConfig cluster = SmallCluster(),
                        const rpc::ServerOptions& options = {}, rpc::Observer* observer = nullptr)
      : WorkerFixture(std::move(cluster)), connection(*worker, config, io, options, observer) {}

  BatchClient& client() { return *connection.client; }

  WorkerConnection connection;
};

}  // namespace simurgh
