#pragma once

// Messages that a receiver keeps after their calls, and possibly their connections, have ended.

#include <array>
#include <cstddef>
#include <cstdint>

#include "rpc/message.h"
#include "tests/concurrency/soak_ledger.h"

namespace simurgh::rpc {

// The last messages of one direction; checks that they do not change.
//
// Threads: one.
class Keepsakes {
 public:
  Keepsakes(uint64_t seed, Direction direction, Ledger& ledger)
      : seed_(seed), direction_(direction), ledger_(ledger) {}
  Keepsakes(const Keepsakes&) = delete;
  Keepsakes& operator=(const Keepsakes&) = delete;
  ~Keepsakes();

  // Drops the oldest one.
  void Keep(uint64_t id, IncomingMessage message);

 private:
  struct Kept {
    uint64_t id = 0;
    bool present = false;
    IncomingMessage message;
  };

  void Release(Kept& kept);

  const uint64_t seed_;
  const Direction direction_;
  Ledger& ledger_;
  std::array<Kept, 4> kept_;
  size_t next_ = 0;
};

}  // namespace simurgh::rpc
