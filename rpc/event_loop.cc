#include "rpc/event_loop.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace simurgh::rpc {
namespace {

// One wait in so many is watched awake even when waits are long, to find out when they get short.
constexpr uint32_t kProbeInterval = 64;

// More than this between two waits is much: a request and an answer of 64 KiB.
constexpr size_t kSmallTrafficBytes = 98'304;

thread_local size_t traffic_bytes = 0;

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Whether the next wait is likely to be short, from those before it.
class WaitForecast {
 public:
  explicit WaitForecast(Clock::duration limit) : limit_(limit) {}

  bool Short() {
    if (average_ <= limit_) return true;
    return ++skipped_ % kProbeInterval == 0;
  }

  // Long waits count as a little longer than the limit, so that one of them is soon forgotten.
  void Note(Clock::duration wait) { average_ += (std::min(wait, 4 * limit_) - average_) / 8; }

 private:
  const Clock::duration limit_;
  Clock::duration average_{0};
  uint32_t skipped_ = 0;
};

// False when nothing was there to do within the time.
bool Spin(asio::io_context& context, Clock::time_point until) {
  do {
    if (context.poll() != 0) return true;
    Pause();
  } while (!context.stopped() && Clock::now() < until);
  return false;
}

}  // namespace

void RunEventLoop(asio::io_context& context, std::chrono::microseconds max_spin) {
  if (max_spin <= std::chrono::microseconds::zero()) {
    context.run();
    return;
  }
  WaitForecast forecast(max_spin);
  while (!context.stopped()) {
    // After much traffic the thread sleeps at once: to look first would be one more system call.
    if (std::exchange(traffic_bytes, 0) > kSmallTrafficBytes) {
      context.run_one();
      continue;
    }
    if (context.poll() != 0) continue;
    const Clock::time_point idle_since = Clock::now();
    const bool done = forecast.Short() && Spin(context, idle_since + max_spin);
    if (!done && !context.stopped()) context.run_one();
    forecast.Note(Clock::now() - idle_since);
  }
}

void NoteTraffic(size_t bytes) { traffic_bytes += bytes; }

}  // namespace simurgh::rpc
