#include "tests/unit/collective/rank_threads.h"

#include <csignal>
#include <thread>
#include <utility>

namespace simurgh::testing {

ExchangeAddresses MeetingPlace::Of(uint32_t rank) {
  return [this, rank](std::string own) -> StatusOr<std::vector<std::string>> {
    const MutexLock lock(mutex_);
    addresses_[rank] = std::move(own);
    ++arrived_;
    changed_.NotifyAll();
    while (arrived_ < addresses_.size()) changed_.Wait(mutex_);
    return addresses_;
  };
}

std::vector<Status> RunRanks(uint32_t ranks, const RankBody& body, const RankOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);
  MeetingPlace place(ranks);
  std::vector<Status> results(ranks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto collective = CreateGlooCollective({.rank = rank,
                                              .ranks = ranks,
                                              .host = "127.0.0.1",
                                              .shares_memory = rank < options.sharers,
                                              .timeout = options.timeout},
                                             place.Of(rank));
      results[rank] = collective.ok() ? body(*collective) : collective.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace simurgh::testing
