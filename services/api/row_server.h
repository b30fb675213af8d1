#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rpc/async.h"
#include "rpc/call.h"
#include "simurgh/base/status.h"
#include "simurgh/feature/batch_plan.h"
#include "simurgh/table/partition.h"

namespace simurgh {

// A read of rows from one server.
struct PullRowsCall {
  LookupMode purpose = LookupMode::kTrain;
  StepId position;
  uint64_t acknowledged_steps = 0;
  std::span<const RowGroup> groups;
  std::span<const uint64_t> ids;  // Group after group, partition after partition.
  std::span<std::byte> rows;      // As row_payload.h has it; overwritten.
  std::shared_ptr<void> owner;    // Of all the above.
  uint64_t client = 0;            // Whose calls take turns with those of others.
};

// Gradients for rows of one server.
struct PushRowsCall {
  StepId position;
  std::span<const RowGroup> groups;
  std::span<const float> learning_rates;  // By group.
  std::span<const uint64_t> ids;          // As in PullRowsCall.
  std::span<const std::byte> gradients;   // As rows in PullRowsCall.
  std::shared_ptr<void> owner;            // Of all the above.
  uint64_t client = 0;                    // As in PullRowsCall.
};

// A parameter server as an embedding worker sees it: the server itself in the same process, or a
// client.
//
// A training pull and a push reach every partition, also those without ids: only so can a partition
// tell a push that was lost from one that had nothing for it.
//
// Errors: of Partition; UNAVAILABLE, DEADLINE_EXCEEDED when the server cannot be reached in time;
// FAILED_PRECONDITION when its bucket map is another.
// Threads: call from the executor it was made with.
class RowServer {
 public:
  virtual ~RowServer() = default;

  [[nodiscard]] virtual rpc::awaitable<StatusOr<PullReport>> Pull(PullRowsCall call,
                                                                  rpc::CallOptions options) = 0;
  [[nodiscard]] virtual rpc::awaitable<StatusOr<PushReport>> Push(PushRowsCall call,
                                                                  rpc::CallOptions options) = 0;
};

}  // namespace simurgh
