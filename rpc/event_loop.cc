#include "rpc/event_loop.h"

#include <algorithm>
#include <cstdint>
#include <thread>

namespace simurgh::rpc {
namespace {

// Maximum number of consecutive waits without spinning.
constexpr uint32_t kMaxSkipped = 63;

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
  // The waits that spun decide. The length of a sleep is no evidence, because waking can take
  // longer than the wait: two ends that both sleep would never start to spin.
  uint32_t skip = 0;     // Remaining waits to skip.
  uint32_t skipped = 0;  // Waits to skip after the last failed spin.
  while (!context.stopped()) {
    if (LongWait::any() || skip != 0) {
      if (!LongWait::any()) --skip;
    } else if (Spin(context, Clock::now() + max_spin)) {
      skipped /= 2;
      continue;
    } else {
      skip = skipped = std::min(2 * skipped + 1, kMaxSkipped);
    }
    context.run_one();
  }
}

}  // namespace simurgh::rpc
