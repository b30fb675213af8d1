#pragma once

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/log.h"
#include "services/api/dense_rpc.h"
#include "services/embedding_ps/dense_shard.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/log_limiter.h"
#include "telemetry/metrics.h"

namespace simurgh {

// A DenseShard on a thread of its own. Counts and logs pushes that are not finite.
//
// Threads: call from one executor; the store has its own thread for the weights.
// Lifetime: must outlive every call.
class DenseStore : public DenseServer {
 public:
  explicit DenseStore(MetricRegistry& registry)
      : not_finite_(registry.Get(kDensePushesNotFiniteTotal)) {}

  // Length of the longest range or state so far: an upper bound for response buffers.
  size_t longest() const { return longest_.load(std::memory_order_relaxed); }

  [[nodiscard]] rpc::awaitable<StatusOr<DenseAnswer>> Start(StartDenseCall call,
                                                            rpc::CallOptions /*options*/) override {
    return rpc::RunOn(thread_.executor(),
                      [this, call = std::move(call)]() -> StatusOr<DenseAnswer> {
                        SIMURGH_ASSIGN_OR_RETURN(const DenseAnswer answer, shard_.Start(call));
                        longest_ = std::max(longest_.load(), shard_.longest());
                        return answer;
                      });
  }
  [[nodiscard]] rpc::awaitable<StatusOr<DenseAnswer>> Pull(PullDenseCall call,
                                                           rpc::CallOptions /*options*/) override {
    return rpc::RunOn(thread_.executor(),
                      [this, call = std::move(call)] { return shard_.Pull(call); });
  }
  [[nodiscard]] rpc::awaitable<StatusOr<DenseAnswer>> Push(PushDenseCall call,
                                                           rpc::CallOptions /*options*/) override {
    return rpc::RunOn(thread_.executor(),
                      [this, call = std::move(call)] { return shard_.Push(call); });
  }

 private:
  static inline const CounterFamily kDensePushesNotFiniteTotal{
      "simurgh_ps_dense_pushes_not_finite_total",
      "Dense pushes dropped because they were not finite."};

  void NoteNotFinite(const PushDenseCall& call) {
    not_finite_.Add();
    const auto suppressed = not_finite_log_.Admit(LogLimiter::Clock::now());
    if (!suppressed) return;
    spdlog::warn(
        "dropped a dense push that is not finite: run={:016x} rank={} push={} suppressed={}",
        call.run, call.rank, call.number, *suppressed);
  }

  Counter& not_finite_;
  LogLimiter not_finite_log_{/*lines=*/10, std::chrono::seconds(10)};  // Used on thread_.
  std::atomic<size_t> longest_ = 0;
  // Used on thread_.
  DenseShard shard_{[this](const PushDenseCall& call) { NoteNotFinite(call); }};
  IoThread thread_{"dense"};
};

}  // namespace simurgh
