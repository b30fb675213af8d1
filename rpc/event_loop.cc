#include "rpc/event_loop.h"

#include <algorithm>
#include <cstdint>
#include <thread>

namespace simurgh::rpc {
namespace {

// At most so many waits in a row are not watched.
constexpr uint32_t kMaxSkipped = 63;

// Whether to stay awake for the next wait, from those that were watched. Not from the others: how
// long the thread would have had to wait for an event is not known where it slept, as to be woken
// can take longer than that. Two ends of a connection that both sleep would never find out.
class WaitForecast {
 public:
  bool Watch() {
    if (skip_ == 0) return true;
    --skip_;
    return false;
  }

  // Each wait that was too long for it doubles how many are skipped.
  void Watched(bool ended) {
    if (ended) {
      skipped_ /= 2;
      return;
    }
    skipped_ = std::min(2 * skipped_ + 1, kMaxSkipped);
    skip_ = skipped_;
  }

 private:
  uint32_t skip_ = 0;     // Of the waits to come.
  uint32_t skipped_ = 0;  // After the last that was too long.
};

// False when nothing was there to do within the time.
bool Spin(asio::io_context& context, Clock::time_point until) {
  do {
    if (context.poll() != 0) return true;
    std::this_thread::yield();  // The peer may have been put on this core.
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
