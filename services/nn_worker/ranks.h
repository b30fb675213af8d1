#pragma once

#include <memory>
#include <stop_token>

#include "services/nn_worker/rank_methods.h"
#include "services/runtime/daemon.h"
#include "services/runtime/io_thread.h"
#include "simurgh/collective/collective.h"

namespace simurgh {

// A run that this rank takes part in.
struct JointRun {
  std::unique_ptr<Collective> collective;
  uint64_t run = 0;  // Of all ranks.
};

// How this nn-worker comes together with the others of its configuration: at rank 0, whose address
// all know.
//
// Threads: the daemon's main thread.
class Ranks {
 public:
  // plan: a hash of what all ranks must agree on.
  Ranks(DaemonContext& context, uint64_t plan);

  // Rank 0: `server`, which must end before this, is where the others come. executor: the server's.
  void MeetAt(rpc::Server& server, rpc::asio::any_io_executor executor);

  // Waits until all ranks have come and are connected.
  // Errors: of Rendezvous, MeetRanks and CreateGlooCollective; CANCELLED after a stop.
  StatusOr<JointRun> Join(const std::stop_token& stop);

 private:
  StatusOr<MeetingResult> Meet(std::string own, const std::stop_token& stop);
  StatusOr<MeetingResult> MeetAtRank0(std::string own, const std::stop_token& stop);

  DaemonContext& context_;
  const uint32_t rank_;
  const uint32_t ranks_;
  const uint64_t plan_;
  Rendezvous meeting_;
  std::unique_ptr<RankService> service_;  // Of rank 0.
};

}  // namespace simurgh
