#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rpc/client.h"
#include "rpc/server.h"
#include "services/nn_worker/rendezvous.h"

namespace simurgh {

// Registers MeetRanks, rank 0's side of the rendezvous. executor: the server's.
// Lifetime: the rendezvous outlives the server.
void RegisterRankMethods(rpc::Server& server, Rendezvous& rendezvous, uint64_t run,
                         rpc::asio::any_io_executor executor);

// Rank 0's response.
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
