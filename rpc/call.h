#pragma once

// Method, trace and options of a call.

#include <cstdint>
#include <string_view>

#include "rpc/async.h"
#include "simurgh/base/hash.h"

namespace simurgh::rpc {

// A method: its number on the wire, from 1, and its name in metrics, logs and traces, a literal.
struct MethodId {
  uint32_t number = 0;
  std::string_view name;
};

// Connects the calls of one operation across processes. Each nested call has its own span. 0 means
// none.
struct Trace {
  uint64_t trace_id = 0;
  uint64_t span_id = 0;

  // For the nested call `number`.
  Trace Child(uint64_t number) const {
    if (trace_id == 0) return {};
    return {.trace_id = trace_id, .span_id = Mix64(span_id + number + 1)};
  }
};

// Converts from a deadline.
struct CallOptions {
  CallOptions(Clock::time_point until, Trace of = {})  // NOLINT(google-explicit-constructor)
      : deadline(until), trace(of) {}

  Clock::time_point deadline;  // Clock::time_point::max() for none.
  // Maximum wait for a connection, within the deadline.
  Clock::duration patience = Clock::duration::max();
  Trace trace;
};

}  // namespace simurgh::rpc
