#pragma once

#include <memory>

#include "rpc/client.h"
#include "rpc/server.h"
#include "services/nn_worker/rendezvous.h"
#include "services/nn_worker/waiters.h"

namespace simurgh {

// Rank 0's side of a meeting on the network.
//
// Threads: construct anywhere; handlers run on the server's executor.
// Lifetime: the meeting outlives this, and this the server.
class RankService {
 public:
  RankService(Rendezvous& meeting, uint64_t run, rpc::asio::any_io_executor executor);
  // After the server has gone.
  ~RankService();

  // Registers MeetRanks.
  void Register(rpc::Server& server);

 private:
  struct Methods;

  Rendezvous& meeting_;
  const uint64_t run_;
  std::shared_ptr<Waiters> waiters_;
};

// What the other ranks hear at a meeting.
struct MeetingResult {
  uint64_t run = 0;
  std::vector<std::string> addresses;  // By rank.
};

// A rank's side: comes to the meeting at `client`, as often as needed until `deadline`.
// Errors: of Rendezvous::Arrive; DEADLINE_EXCEEDED with what failed last.
[[nodiscard]] rpc::awaitable<StatusOr<MeetingResult>> MeetRanks(rpc::Client& client, uint32_t rank,
                                                                uint32_t ranks, uint64_t plan,
                                                                std::string addresses,
                                                                rpc::Clock::time_point deadline);

}  // namespace simurgh
