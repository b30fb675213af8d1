#include "services/embedding_ps/fair_queue.h"

#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace simurgh {
namespace {

// The order of the clients' turns.
using Log = std::vector<uint64_t>;

class CountedTask : public FairQueue::Task {
 public:
  CountedTask(uint64_t client, int pieces, Log& log, const bool* blocked = nullptr)
      : client_(client), pieces_(pieces), log_(log), blocked_(blocked) {}

  bool Ready() override { return blocked_ == nullptr || !*blocked_; }
  bool Advance() override {
    log_.push_back(client_);
    return --pieces_ == 0;
  }

 private:
  const uint64_t client_;
  int pieces_;
  Log& log_;
  const bool* blocked_;
};

void Add(FairQueue& turns, uint64_t client, int pieces, Log& log, const bool* blocked = nullptr) {
  turns.Add(client, std::make_unique<CountedTask>(client, pieces, log, blocked));
}

TEST_CASE("a small request waits for one piece of a greedy client") {
  FairQueue turns;
  Log log;
  for (int i = 0; i < 1'000; ++i) Add(turns, /*client=*/1, /*pieces=*/2'442, log);
  for (int i = 0; i < 10; ++i) turns.RunOne();
  Add(turns, /*client=*/2, /*pieces=*/1, log);
  turns.RunOne();
  turns.RunOne();
  CHECK(log == Log{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2});
}

TEST_CASE(
    "clients with work get turns in equal numbers, and a client's requests keep their order") {
  const uint64_t seed = 20261121;
  CAPTURE(seed);
  Random random(seed);
  FairQueue turns;
  Log log;
  constexpr uint64_t kClients = 5;
  std::map<uint64_t, int> wanted;
  for (int i = 0; i < 500; ++i) {
    const uint64_t client = random.Below(kClients);
    const int pieces = 1 + static_cast<int>(random.Below(20));
    wanted[client] += pieces;
    Add(turns, client, pieces, log);
  }
  std::map<uint64_t, int> had;
  while (!turns.empty()) {
    turns.RunOne();
    ++had[log.back()];
    for (uint64_t one = 0; one < kClients; ++one) {
      for (uint64_t other = 0; other < kClients; ++other) {
        // No waiting client is more than a turn behind.
        if (had[one] < wanted[one]) CHECK(had[one] >= std::min(had[other], wanted[one]) - 1);
      }
    }
  }
  CHECK(had == wanted);
}

TEST_CASE("a client that is not ready keeps its place and blocks no other") {
  FairQueue turns;
  Log log;
  bool blocked = true;
  Add(turns, 1, 2, log, &blocked);
  Add(turns, 2, 3, log);
  Add(turns, 3, 3, log);
  for (int i = 0; i < 3; ++i) turns.RunOne();
  CHECK(log == Log{2, 3, 2});
  blocked = false;
  while (!turns.empty()) turns.RunOne();
  CHECK(log == Log{2, 3, 2, 3, 1, 2, 3, 1});
}

TEST_CASE("no piece runs while no client is ready") {
  FairQueue turns;
  Log log;
  bool blocked = true;
  Add(turns, 1, 1, log, &blocked);
  Add(turns, 2, 1, log, &blocked);
  CHECK_FALSE(turns.RunOne());
  CHECK(log.empty());
  blocked = false;
  CHECK(turns.RunOne());
  CHECK(turns.RunOne());
  CHECK(log == Log{1, 2});
  CHECK_FALSE(turns.RunOne());
}

}  // namespace
}  // namespace simurgh
