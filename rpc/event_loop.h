#pragma once

#include <chrono>

#include "rpc/async.h"

namespace simurgh::rpc {

// While one lives, RunEventLoop() of its thread does not look for events: what is waited for is
// meant to take longer than it costs to wake.
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

// Runs a context in this thread until it is stopped or has no work left, as its own run() does, but
// looks for events on and on for up to `max_spin` after the last one before it lets the thread
// sleep: a short wait costs no wake-up then (5 us a side on a machine of one's own, 40 where a
// hypervisor takes the core away from who sleeps), at the price of the processor's time. Waits that
// turn out longer make it look ever more seldom, down to one in 64. Meanwhile it gives way to any
// other thread that wants the core. 0 never spins.
//
// Requires that this is the only thread that runs the context.
void RunEventLoop(asio::io_context& context, std::chrono::microseconds max_spin);

}  // namespace simurgh::rpc
