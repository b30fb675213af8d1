#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "rpc/async.h"
#include "rpc/call.h"
#include "simurgh/base/status.h"
#include "simurgh/config/training_config.h"

namespace simurgh {

struct DenseAnswer {
  uint64_t version = 0;   // Pushes applied so far.
  uint64_t gap = 0;       // Push: other pushes applied since base_version.
  bool repeated = false;  // Push: it had been applied before.
};

struct StartDenseCall {
  uint64_t run = 0;
  DenseOptimizerConfig optimizer;
  std::span<const float> parameters;  // The server's range.
  std::span<const float> state;       // The optimizer's, of this range; empty: a new one.
  std::shared_ptr<const void> owner;  // Keeps the spans alive.
};

struct PullDenseCall {
  uint64_t run = 0;
  bool state = false;           // The optimizer's state in place of the weights.
  std::span<float> values;      // Overwritten.
  std::shared_ptr<void> owner;  // Keeps `values` alive.
};

struct PushDenseCall {
  uint64_t run = 0;
  uint32_t rank = 0;
  uint64_t number = 0;        // The rank's pushes are numbered from 0.
  uint64_t base_version = 0;  // Version of the weights that produced the gradients.
  float learning_rate = 0;
  std::span<const float> gradients;
  std::span<float> parameters;  // Overwritten with the weights after the push.
  std::shared_ptr<void> owner;  // Keeps the spans alive, unless the caller does.
};

// A server's range of the dense weights: the store itself or a client of another process.
//
// A rank sends its pushes one at a time, in the order of their numbers. The last push may be
// repeated and is then acknowledged without effect.
//
// Errors: DATA_LOSS when the server has lost state of the run; INVALID_ARGUMENT for a range of
// another length, a bad learning rate or optimizer; UNAVAILABLE or DEADLINE_EXCEEDED when the
// server is not reachable in time. Threads: call from one executor.
class DenseServer {
 public:
  virtual ~DenseServer() = default;

  // Sets the initial weights of the run, unless it has weights already.
  [[nodiscard]] virtual rpc::awaitable<StatusOr<DenseAnswer>> Start(StartDenseCall call,
                                                                    rpc::CallOptions options) = 0;
  [[nodiscard]] virtual rpc::awaitable<StatusOr<DenseAnswer>> Pull(PullDenseCall call,
                                                                   rpc::CallOptions options) = 0;
  [[nodiscard]] virtual rpc::awaitable<StatusOr<DenseAnswer>> Push(PushDenseCall call,
                                                                   rpc::CallOptions options) = 0;
};

}  // namespace simurgh
