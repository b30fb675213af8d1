#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/micro/rpc/options.h"
#include "bench/micro/rpc/point.h"

#include "simurgh/base/status.h"

namespace simurgh::bench {

// What one peer reached at one point: its measurements in the order they were made.
struct PeerResult {
  std::string peer;
  std::vector<Sample> samples;
};

struct PointResult {
  Point point;
  std::vector<PeerResult> peers;  // Our own first.
};

// Measures every point that the options ask for; `done` gets each as it is finished. Progress and
// what is left out go to standard error.
// Errors: those of the processes, with point and peer.
Status RunSweep(const Options& options, const std::function<void(const PointResult&)>& done);

}  // namespace simurgh::bench
