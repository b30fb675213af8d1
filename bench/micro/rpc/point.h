#pragma once

#include <cstdint>
#include <string>

namespace simurgh::bench {

// What one measurement does: `in_flight` requests of `bytes` each, answered by as many bytes, over
// one connection for `seconds`.
struct Point {
  std::string transport;  // "tcp", "unix" or "shm".
  uint64_t bytes = 0;
  uint32_t in_flight = 0;
  double seconds = 0;
};

// What came out of it. The client process hands it to the program that started it as it is.
//
// GB and MB are powers of ten; payload counts once in each direction, so a request and its response
// are 2 * bytes.
struct Sample {
  double rps = 0;   // Requests answered per second.
  double gbps = 0;  // Payload GB per second, both directions together.
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double cpu_s_per_gb = 0;  // User and system time of both processes, over payload GB.

  // Peak resident memory (VmHWM) of the process where it is larger.
  double peak_rss_mb = 0;

  // Peak over idle (connected, nothing sent) less the tensors that a side must hold: its requests
  // and responses in flight at the client, one buffer a request at the server. Of the side where
  // this is larger; negative when a side gets by with less.
  double extra_rss_mb = 0;

  // Cores that everything else on the machine has used meanwhile: what the other numbers are worth.
  double other_cores = 0;
};

}  // namespace simurgh::bench
