#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "services/nn_worker/rank_mesh.h"

namespace simurgh::testing {

inline constexpr uint64_t kRun = 7;

// HELLO of a rank in tests.
rpc::Hello HelloOfRank(uint32_t rank);

// A rank's server, its thread and its mesh.
class RankServer {
 public:
  // address: TCP, with any free port, or a path.
  RankServer(const RankMesh::Options& mesh, const std::string& address,
             const rpc::ServerOptions& options = {});
  ~RankServer();

  IoThread& thread() { return thread_; }
  RankMesh& mesh() { return *mesh_; }
  const std::string& address() const { return address_; }

  // Connects to all ranks. After an error, or when the collective is destroyed, the mesh ends.
  StatusOr<std::unique_ptr<Collective>> Join(const std::vector<std::string>& addresses,
                                             const rpc::ClientOptions& options = {});

  // Closes the server's connections without a word, as the end of the process does.
  void Cut();

 private:
  std::unique_ptr<RankMesh> mesh_;  // Outlives the thread.
  IoThread thread_{"rpc"};
  std::unique_ptr<rpc::Server> server_;
  std::string address_;
};

// The body of a rank. It may destroy the collective before it ends.
using RankBody = std::function<Status(std::unique_ptr<Collective>& collective)>;
// As RankBody; can cut off its server, too.
using ServerBody =
    std::function<Status(std::unique_ptr<Collective>& collective, RankServer& server)>;

struct RankOptions {
  uint32_t sharers = 0;  // Number of ranks, from the first, that others reach by shared memory.
  std::chrono::milliseconds timeout{120'000};
};

// Runs `body` on one thread per rank and returns the results. `body` must not use Catch2's
// assertions, which belong to one thread.
std::vector<Status> RunRanks(uint32_t ranks, const ServerBody& body,
                             const RankOptions& options = {});
std::vector<Status> RunRanks(uint32_t ranks, const RankBody& body, const RankOptions& options = {});

}  // namespace simurgh::testing
