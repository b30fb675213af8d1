#pragma once

#include <cstdint>
#include <string>

namespace simurgh::bench {

// What happens to payload outside of the library.
enum class Work {
  kEcho,     // The server sends back what it has received; nobody else touches payload.
  kReady,    // Both ends send tensors that lie ready, and read every byte of what they receive.
  kProduce,  // The same, and they write every byte of what they send, each time.
};

// As options and reports have it: "echo", "ready", "produce".
std::string NameOf(Work work);

// What one measurement does: `in_flight` requests of `bytes` each, answered by as many bytes, over
// one connection for `seconds`.
struct Point {
  Work work = Work::kEcho;
  std::string transport;  // "tcp", "unix" or "shm".
  uint64_t bytes = 0;
  uint32_t in_flight = 0;
  double seconds = 0;
  uint32_t max_spin_us = 0;  // Of our library's event loops.
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

  // Peak over idle (connected, nothing sent) less the tensors that a side must hold. Of the side
  // where this is larger; negative when a side gets by with less.
  double extra_rss_mb = 0;

  // Cores that everything else on the machine has used meanwhile: what the other numbers are worth.
  double other_cores = 0;
};

}  // namespace simurgh::bench
