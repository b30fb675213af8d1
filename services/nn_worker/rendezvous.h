#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rpc/client.h"
#include "rpc/server.h"
#include "rpc/waiter.h"
#include "services/api/answer.h"
#include "services/api/rank_methods.h"
#include "simurgh/base/status.h"

namespace simurgh {

// Where the ranks of a run meet: at rank 0.
//
// Threads: the server's. Lifetime: outlives the server and its thread.
class Rendezvous {
 public:
  // plan: settings that all ranks must agree on, see SettingsDifference. executor: the server's.
  Rendezvous(rpc::asio::any_io_executor executor, uint32_t ranks, std::string plan, uint64_t run)
      : plan_(std::move(plan)), run_(run), incarnations_(ranks), arrivals_(std::move(executor)) {}

  void Register(rpc::Server& server);

  // Adds a rank, the process of this incarnation. Until all have arrived, a rank may be restarted.
  // Errors: INVALID_ARGUMENT for a rank out of range, another number of ranks or another plan;
  // FAILED_PRECONDITION for another incarnation after all have arrived.
  Status Arrive(uint32_t rank, uint32_t ranks, const std::string& plan, uint64_t incarnation);

  // Empty when all have arrived, else "ranks 1, 3".
  std::string Missing() const;

 private:
  [[nodiscard]] Reply<api::MeetRanks> OnMeet(rpc::RequestOf<api::MeetRanks::Request> request);

  const std::string plan_;
  const uint64_t run_;
  std::vector<std::optional<uint64_t>> incarnations_;  // By rank.
  rpc::WaitList arrivals_;
};

// A rank's side, also that of rank 0: calls rank 0 until all ranks have arrived, or until
// `deadline`. Returns the run. Errors: of Rendezvous::Arrive; DEADLINE_EXCEEDED, naming the missing
// ranks or the last failure.
[[nodiscard]] rpc::awaitable<StatusOr<uint64_t>> MeetRanks(rpc::Client& client, uint32_t rank,
                                                           uint32_t ranks, std::string plan,
                                                           rpc::Clock::time_point deadline);

}  // namespace simurgh
