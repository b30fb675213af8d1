#include "rpc/event_loop.h"

#include <algorithm>
#include <cstdint>
#include <thread>

namespace simurgh::rpc {
namespace {

// Maximum of consecutive waits without spinning.
constexpr uint32_t kMaxSkipped = 63;

// Decides whether to spin in the next wait, by the waits that spun. The length of a sleep is no
// evidence, because waking can take longer than the wait: two ends that both sleep would never
// start to spin.
class WaitForecast {
 public:
  bool Watch() {
    if (skip_ == 0) return true;
    --skip_;
    return false;
  }

  // Each spin without an event doubles the number of skipped waits.
  void Watched(bool ended) {
    if (ended) {
      skipped_ /= 2;
      return;
    }
    skipped_ = std::min(2 * skipped_ + 1, kMaxSkipped);
    skip_ = skipped_;
  }

 private:
  uint32_t skip_ = 0;     // Remaining waits to skip.
  uint32_t skipped_ = 0;  // Waits to skip after the last failed spin.
};

// Returns false without an event until the deadline.
bool Spin(asio::io_context& context, Clock::time_point until) {
  do {
    if (context.poll() != 0) return true;
    std::this_thread::yield();  // The peer may be scheduled on this core.
  } while (!context.stopped() && Clock::now() < until);
  return false;
}

}  // namespace

void RunEventLoop(asio::io_context& context, std::chrono::microseconds max_spin) {
  if (max_spin <= std::chrono::microseconds::zero()) {
    context.run();
    return;
  }
  WaitForecast forecast;
  while (!context.stopped()) {
    if (!LongWait::any() && forecast.Watch()) {
      const bool ended = Spin(context, Clock::now() + max_spin);
      forecast.Watched(ended);
      if (ended) continue;
    }
    context.run_one();
  }
}

}  // namespace simurgh::rpc
