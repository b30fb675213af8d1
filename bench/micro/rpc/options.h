#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/micro/rpc/point.h"

namespace simurgh::bench {

struct Options {
  std::vector<Work> works;
  std::vector<std::string> transports;
  std::vector<uint64_t> bytes;
  std::vector<uint32_t> in_flight;
  std::vector<std::string> peers;  // Without our own.
  uint32_t repeat = 0;             // Measurements per point and peer.
  double seconds = 0;              // Per measurement.
  uint32_t spin_us = 0;            // Spin time of kOursSpinning; 0 omits that peer.
  bool json = false;
};

// "64", "4Ki", "1Mi".
std::string BytesText(uint64_t bytes);

}  // namespace simurgh::bench
