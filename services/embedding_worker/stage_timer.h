#pragma once

#include <chrono>

#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// Observes the time from construction to Stop.
class StageTimer {
 public:
  explicit StageTimer(Histogram& histogram) : histogram_(histogram) {}
  void Stop() { histogram_.Observe(std::chrono::steady_clock::now() - start_); }

 private:
  Histogram& histogram_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace simurgh
