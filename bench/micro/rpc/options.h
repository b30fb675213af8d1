#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "bench/micro/rpc/point.h"
#include "simurgh/base/status.h"

namespace simurgh::bench {

struct Options {
  std::vector<Work> works;
  std::vector<std::string> transports;
  std::vector<uint64_t> bytes;
  std::vector<uint32_t> in_flight;
  std::vector<std::string> peers;  // Beside our own; empty: none.
  uint32_t repeat = 0;             // Measurements a point and peer.
  double seconds = 0;              // Each.
  uint32_t max_spin_us = 0;
  bool json = false;
};

// Reads a command line. Nothing after --help or --version, whose text goes to `out`.
// Errors: INVALID_ARGUMENT, one line.
StatusOr<std::optional<Options>> ParseOptions(int argc, const char* const* argv, std::ostream& out);

// "64", "4Ki", "1Mi".
StatusOr<uint64_t> ParseBytes(const std::string& text);
std::string BytesText(uint64_t bytes);

}  // namespace simurgh::bench
