#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "services/nn_worker/rank_mesh.h"
#include "services/nn_worker/rendezvous.h"
#include "services/runtime/daemon.h"
#include "services/runtime/rpc_metrics.h"
#include "simurgh/collective/collective.h"

namespace simurgh {

// A run that all ranks have joined.
struct JointRun {
  std::unique_ptr<Collective> collective;
  uint64_t run = 0;  // Equal on all ranks.
};

// Connects the nn-workers of a configuration. Rank 0 numbers the run, and each connects to all.
//
// Threads: the daemon's main thread. Lifetime: outlives the server and its thread.
class Ranks {
 public:
  // plan: as for Rendezvous. thread: the server's.
  Ranks(DaemonContext& context, std::string plan, IoThread& thread);

  // Registers the methods for other ranks.
  void Register(rpc::Server& server);

  // Waits until all ranks are connected. run: of this process, which all use if it is rank 0. The
  // collective must end before this object.
  // Errors: of Rendezvous, MeetRanks and RankMesh; CANCELLED after a stop.
  StatusOr<JointRun> Join(uint64_t run, const std::stop_token& stop);

 private:
  std::unique_ptr<rpc::Client> Dial(uint32_t rank);
  // The number of the run.
  StatusOr<uint64_t> Meet(const std::stop_token& stop);

  DaemonContext& context_;
  IoThread& thread_;
  const std::string plan_;
  RpcMetrics observer_;
  Rendezvous rendezvous_;  // Of rank 0.
  RankMesh mesh_;
};

}  // namespace simurgh
