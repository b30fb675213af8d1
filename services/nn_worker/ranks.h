#pragma once

#include <memory>
#include <stop_token>

#include "services/nn_worker/rank_methods.h"
#include "services/runtime/daemon.h"
#include "services/runtime/io_thread.h"
#include "simurgh/collective/collective.h"

namespace simurgh {

// A run that all ranks have joined.
struct JointRun {
  std::unique_ptr<Collective> collective;
  uint64_t run = 0;  // Equal on all ranks.
};

// Connects the nn-workers of a configuration. Ranks exchange their addresses through rank 0.
//
// Threads: the daemon's main thread.
class Ranks {
 public:
  // plan: as for Rendezvous.
  Ranks(DaemonContext& context, std::string plan);

  // For rank 0: registers the rendezvous. executor: the server's. Lifetime: outlives the server.
  void ServeRendezvous(rpc::Server& server, rpc::asio::any_io_executor executor);

  // Waits until all ranks are connected.
  // Errors: of Rendezvous, MeetRanks and CreateGlooCollective; CANCELLED after a stop.
  StatusOr<JointRun> Join(const std::stop_token& stop);

 private:
  StatusOr<RendezvousResult> JoinAtRank0(std::string own, const std::stop_token& stop);

  DaemonContext& context_;
  const uint32_t rank_;
  const uint32_t ranks_;
  const std::string plan_;
  Rendezvous rendezvous_;
};

}  // namespace simurgh
