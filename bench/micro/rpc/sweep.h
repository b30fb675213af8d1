#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/micro/rpc/options.h"
#include "bench/micro/rpc/point.h"
#include "simurgh/base/status.h"

namespace simurgh::bench {

// This library as the daemons run it by default, and with rpc.spin.
inline constexpr char kOurs[] = "simurgh";
inline constexpr char kOursSpinning[] = "simurgh-spin";

// Who takes turns at a point: a peer over a transport, and what it reached, in order.
struct Contestant {
  std::string transport;
  std::string peer;
  std::string program;  // That plays its client and server.
  std::vector<Sample> samples = {};

  bool ours() const { return peer == kOurs || peer == kOursSpinning; }
};

struct PointResult {
  Work work = Work::kEcho;
  uint64_t bytes = 0;
  uint32_t in_flight = 0;
  std::vector<Contestant> contestants;  // A transport behind the other, our own library first.
};

// Measures every point that the options ask for; `done` gets each as it is finished. Progress and
// what is left out go to standard error.
// Errors: those of the processes, with point and peer.
Status RunSweep(const Options& options, const std::function<void(const PointResult&)>& done);

}  // namespace simurgh::bench
