#pragma once

#include <cstdint>
#include <string>

namespace simurgh::bench {

// What happens to payload outside of the library.
enum class Work {
  kEcho,     // The server returns the received bytes; neither end touches the payload otherwise.
  kReady,    // Both ends send ready tensors, and read every received byte.
  kProduce,  // As kReady, and both ends write every byte before they send it.
};

// The name in options and reports: "echo", "ready", "produce".
std::string NameOf(Work work);

// One measurement: `in_flight` requests of `bytes` bytes over one connection for `seconds`. Each
// response has the size of its request.
struct Point {
  Work work = Work::kEcho;
  std::string transport;  // "tcp", "unix" or "shm".
  uint64_t bytes = 0;
  uint32_t in_flight = 0;
  double seconds = 0;
  uint32_t spin_us = 0;  // Spin limit of our library's event loops.
};

// The result of a measurement. The client process sends its bytes to its parent process.
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

  // Peak over idle (connected, nothing sent) less the tensors that a side must hold. For the side
  // where this is larger; negative if a side needs less.
  double extra_rss_mb = 0;

  // Cores that the rest of the machine used meanwhile. A large value makes the other numbers
  // unreliable.
  double other_cores = 0;
};

}  // namespace simurgh::bench
