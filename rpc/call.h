#pragma once

// What is known of a call beside its messages.

#include <cstdint>
#include <string_view>

#include "rpc/async.h"
#include "simurgh/base/hash.h"

namespace simurgh::rpc {

// Which method a call is for: its number on the wire, from 1, and its name in metrics and logs.
struct MethodId {
  uint32_t number = 0;
  std::string_view name;
};

// Ties the calls together that serve one purpose, across processes. The span is the caller's: who
// calls on sets one of its own. 0 is none.
struct Trace {
  uint64_t trace_id = 0;
  uint64_t span_id = 0;

  // For the `number`th call that is made on behalf of this one.
  Trace Child(uint64_t number) const {
    if (trace_id == 0) return {};
    return {.trace_id = trace_id, .span_id = Mix64(span_id + number + 1)};
  }
};

// A deadline alone will do where options are asked for.
struct CallOptions {
  CallOptions(Clock::time_point until, Trace of = {})  // NOLINT(google-explicit-constructor)
      : deadline(until), trace(of) {}

  Clock::time_point deadline;  // Clock::time_point::max() for none.
  // How long the call may wait for a connection that is not there, within the deadline.
  Clock::duration patience = Clock::duration::max();
  Trace trace;
};

}  // namespace simurgh::rpc
