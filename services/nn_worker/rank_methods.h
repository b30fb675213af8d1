#pragma once

#include <memory>

#include "rpc/client.h"
#include "rpc/server.h"
#include "services/nn_worker/rendezvous.h"
#include "services/nn_worker/waiters.h"

namespace simurgh {

// Rank 0's side of the rendezvous.
//
// Threads: construct anywhere; handlers run on the server's executor.
// Lifetime: the rendezvous outlives this, and this the server.
class RankService {
 public:
  RankService(Rendezvous& rendezvous, uint64_t run, rpc::asio::any_io_executor executor);
  // Requires that the server has been destroyed.
  ~RankService();

  // Registers MeetRanks.
  void Register(rpc::Server& server);

 private:
  struct Methods;

  Rendezvous& rendezvous_;
  const uint64_t run_;
  std::shared_ptr<Waiters> waiters_;
};

// Rank 0's answer to the other ranks.
struct RendezvousResult {
  uint64_t run = 0;
  std::vector<std::string> addresses;  // By rank.
};

// Another rank's side: calls rank 0 until all ranks have arrived, or until `deadline`.
// Errors: of Rendezvous::Arrive; DEADLINE_EXCEEDED with the last failure.
[[nodiscard]] rpc::awaitable<StatusOr<RendezvousResult>> MeetRanks(rpc::Client& client,
                                                                   uint32_t rank, uint32_t ranks,
                                                                   std::string plan,
                                                                   std::string addresses,
                                                                   rpc::Clock::time_point deadline);

}  // namespace simurgh
