#pragma once

#include <chrono>
#include <cstdint>

#include "rpc/call.h"
#include "simurgh/telemetry/metrics.h"
#include "simurgh/telemetry/timeline.h"

namespace simurgh {

// Observes the time from construction to Stop, and records it as a span of the batch. stage: of
// static storage duration.
class StageTimer {
 public:
  StageTimer(Histogram& histogram, const char* stage, const rpc::Trace& trace)
      : histogram_(histogram), stage_(stage), trace_id_(trace.trace_id) {}

  void Stop() {
    const auto now = std::chrono::steady_clock::now();
    histogram_.Observe(now - start_);
    Timeline::Add(
        {.name = stage_, .track = stage_, .begin = start_, .end = now, .trace_id = trace_id_});
  }

 private:
  Histogram& histogram_;
  const char* const stage_;
  const uint64_t trace_id_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace simurgh
