#include "rpc/error.h"

#include <utility>

#include "rpc/control.h"
#include "rpc/status_number.h"

namespace simurgh::rpc {

Execution ExecutionOf(const Status& status) {
  const auto otherwise = static_cast<uint32_t>(Execution::kMaybeExecuted);
  return static_cast<Execution>(NumberOf(status, kExecutionPayload, otherwise));
}

Status WithExecution(Status status, Execution execution) {
  return WithNumber(std::move(status), kExecutionPayload, static_cast<uint32_t>(execution));
}

Status WithDetail(Status status, uint16_t detail) {
  return WithNumber(std::move(status), kDetailPayload, detail);
}

uint16_t DetailOf(const Status& status) {
  return static_cast<uint16_t>(NumberOf(status, kDetailPayload, 0));
}

}  // namespace simurgh::rpc
