#pragma once

// What an rpc error says beyond its code and message.

#include <cstdint>

#include "simurgh/base/status.h"

namespace simurgh::rpc {

// How far a failed call came.
enum class Execution {
  kNotExecuted,    // The peer's handler has not been started: repeat freely.
  kMaybeExecuted,  // Lost on the way, one cannot tell: repeat what is idempotent.
  kAnswered,       // The peer's handler ended with this error.
};

// Of an error that Client::Call returned; kMaybeExecuted for every other status.
Execution ExecutionOf(const Status& status);
Status WithExecution(Status status, Execution execution);

// A number that refines the code, agreed between a method and its callers; it travels with the
// error. 0 means none.
Status WithDetail(Status status, uint16_t detail);
uint16_t DetailOf(const Status& status);

}  // namespace simurgh::rpc
