#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/micro/rpc/options.h"
#include "bench/micro/rpc/point.h"

namespace simurgh::bench {

// This library as the daemons run it by default, and with rpc.spin.
inline constexpr char kOurs[] = "simurgh";
inline constexpr char kOursSpinning[] = "simurgh-spin";

// A peer over a transport, with its samples in order. Contestants take turns at a point.
struct Contestant {
  std::string transport;
  std::string peer;
  std::string program;  // Runs its client and server.
  std::vector<Sample> samples = {};

  bool ours() const { return peer == kOurs || peer == kOursSpinning; }
};

struct PointResult {
  Work work = Work::kEcho;
  uint64_t bytes = 0;
  uint32_t in_flight = 0;
  std::vector<Contestant> contestants;  // Ordered by transport; our own library first.
};

// Measures every point of the options and passes each finished one to `done`. Writes progress and
// omissions to standard error.
// Errors: those of the processes, with point and peer.
Status RunSweep(const Options& options, const std::function<void(const PointResult&)>& done);

}  // namespace simurgh::bench
