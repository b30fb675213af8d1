#pragma once

#include <atomic>
#include <list>
#include <vector>

#include "services/api/dense_rpc.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/log_limiter.h"
#include "simurgh/config/service_config.h"
#include "simurgh/config/training_config.h"
#include "simurgh/nn/dense_optimizer.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// A server's range of the dense weights and optimizer state, for each of the last kMaxRuns runs. A
// push is applied on arrival, without waiting for other ranks. A push with NaN or infinite
// gradients is acknowledged without effect, counted and logged.
//
// Threads: call from one executor; the store has its own thread for the weights.
// Lifetime: must outlive every call.
class DenseStore : public DenseServer {
 public:
  static constexpr size_t kMaxRuns = 2;
  static constexpr uint64_t kMaxFloats = uint64_t{1} << 28;        // Per run.
  static constexpr uint64_t kMaxStateFloats = 2 * kMaxFloats + 1;  // Adam's.

  explicit DenseStore(MetricRegistry& registry)
      : not_finite_(registry.GetCounter("simurgh_ps_dense_pushes_not_finite_total",
                                        "Dense pushes dropped because they were not finite.")),
        bytes_(registry.GetGauge("simurgh_ps_dense_bytes",
                                 "Memory of dense weights and their optimizer state.")) {}

  // Length of the longest range or state so far: an upper bound for response buffers.
  size_t longest() const { return longest_.load(std::memory_order_relaxed); }

  [[nodiscard]] rpc::awaitable<StatusOr<DenseAnswer>> Start(StartDenseCall call,
                                                            rpc::CallOptions options) override;
  [[nodiscard]] rpc::awaitable<StatusOr<DenseAnswer>> Pull(PullDenseCall call,
                                                           rpc::CallOptions options) override;
  [[nodiscard]] rpc::awaitable<StatusOr<DenseAnswer>> Push(PushDenseCall call,
                                                           rpc::CallOptions options) override;

 private:
  struct Rank {
    uint64_t pushes = 0;  // Applied so far; also the number of the next one.
    DenseAnswer last;
  };

  struct Run {
    Run(uint64_t number, const DenseOptimizerConfig& config, std::span<const float> parameters,
        std::span<const float> state)
        : run(number), optimizer(config, parameters, state) {}

    uint64_t run;
    DenseOptimizer optimizer;
    uint64_t version = 0;
    std::vector<Rank> ranks;
  };

  // On the store's thread.
  // Errors: DATA_LOSS for an unknown run, INVALID_ARGUMENT for another length of the weights, or
  // of the optimizer's state.
  StatusOr<Run*> Find(uint64_t run, size_t length, bool of_state = false);
  void NoteNotFinite(const PushDenseCall& call);

  Counter& not_finite_;
  Gauge& bytes_;
  LogLimiter not_finite_log_{/*lines=*/10, std::chrono::seconds(10)};  // On the store's thread.
  std::atomic<size_t> longest_ = 0;
  std::list<Run> runs_;  // The latest run first.
  IoThread thread_{"dense"};
};

}  // namespace simurgh
