#pragma once

#include <chrono>

#include "rpc/async.h"

namespace simurgh::rpc {

// While one exists, RunEventLoop() of its thread does not spin, because the wait is expected to be
// longer than the cost of waking.
class LongWait {
 public:
  LongWait() { ++living_; }
  ~LongWait() { --living_; }
  LongWait(const LongWait&) = delete;
  LongWait& operator=(const LongWait&) = delete;

  static bool any() { return living_ != 0; }

 private:
  static inline thread_local int living_ = 0;
};

// Runs a context in this thread until it is stopped or has no work, like run(), but polls for up to
// `max_spin` after the last event before it sleeps. Spinning saves the wake-up after a short wait
// (5 us at each end, 40 us on a virtual machine that loses its core) and costs CPU time. Each wait
// that was too long halves the share of waits that spin, down to one in 64. Spinning yields the
// core to other threads. 0 never spins.
//
// Requires that no other thread runs the context.
void RunEventLoop(asio::io_context& context, std::chrono::microseconds max_spin);

}  // namespace simurgh::rpc
