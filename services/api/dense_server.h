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
  uint64_t version = 0;   // Of the weights: how many pushes made them.
  uint64_t gap = 0;       // Of a push: how many others came between its weights and itself.
  bool repeated = false;  // Of a push: it had been applied before.
};

struct StartDenseCall {
  uint64_t run = 0;
  DenseOptimizerConfig optimizer;
  std::span<const float> parameters;  // The server's range.
  std::shared_ptr<const void> owner;  // Of it.
};

struct PullDenseCall {
  uint64_t run = 0;
  std::span<float> parameters;  // Overwritten.
  std::shared_ptr<void> owner;
};

struct PushDenseCall {
  uint64_t run = 0;
  uint32_t rank = 0;
  uint64_t number = 0;        // Of the rank's pushes, from 0.
  uint64_t base_version = 0;  // Of the weights that the gradients are of.
  float learning_rate = 0;
  std::span<const float> gradients;
  std::span<float> parameters;  // Overwritten with what the push has made.
  std::shared_ptr<void> owner;  // Of both.
};

// A server's range of the dense weights as an nn-worker sees it: the store itself in the same
// process, or a client.
//
// A rank's pushes come one at a time, in the order of their numbers; the last one may come again,
// and is then answered and not applied.
//
// Errors: DATA_LOSS when the server does not have what the run has given it; INVALID_ARGUMENT for a
// range of another length, a bad learning rate, or an optimizer that DenseOptimizer does not take;
// UNAVAILABLE, DEADLINE_EXCEEDED when it cannot be
// reached in time.
// Threads: call from the executor it was made with.
class DenseServer {
 public:
  virtual ~DenseServer() = default;

  // Gives the run its first weights, where it has none.
  [[nodiscard]] virtual rpc::awaitable<StatusOr<DenseAnswer>> Start(StartDenseCall call,
                                                                    rpc::CallOptions options) = 0;
  [[nodiscard]] virtual rpc::awaitable<StatusOr<DenseAnswer>> Pull(PullDenseCall call,
                                                                   rpc::CallOptions options) = 0;
  [[nodiscard]] virtual rpc::awaitable<StatusOr<DenseAnswer>> Push(PushDenseCall call,
                                                                   rpc::CallOptions options) = 0;
};

}  // namespace simurgh
