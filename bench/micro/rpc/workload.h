#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sys/types.h>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "bench/micro/rpc/point.h"
#include "bench/support/latency.h"
#include "bench/support/process_stats.h"

namespace simurgh::bench {

// The client's half of a measurement, the same for every peer: a closed loop over `in_flight`
// slots.
//
//   workload.Begin();                     // Once connected.
//   while (workload.Start(slot)) {        // In each slot.
//     ... send a request, receive its response ...
//     SIMURGH_RETURN_IF_ERROR(workload.Finish(slot, received));
//   }
//   return workload.Result();
//
// A quarter of the time given is spent before the clock starts.
//
// Work::kEcho: request(slot) is sent and response(slot) is where to receive. A request bears its
// number in its first and last bytes, which the response must repeat; when the clock has stopped,
// all bytes are compared. Otherwise the peer sends what Produce() makes of number(slot), and the
// response must be the same.
//
// Threads: one.
class Workload {
 public:
  using Clock = std::chrono::steady_clock;

  // server: the process at the other end, whose CPU time and memory are measured from here.
  Workload(Point point, pid_t server);

  // Measures the idle processes, then makes the buffers.
  void Begin();

  // Numbers the slot's request; false when no more are wanted.
  bool Start(uint32_t slot);

  // Number of the request in the slot, from 1. Each request has a new number, except that
  // Work::kReady reuses the slot's.
  uint64_t number(uint32_t slot) const { return slots_[slot].number; }

  // `received` is the response, contiguous. Reads every byte, except for Work::kEcho.
  // Errors: DATA_LOSS if it is not the answer to the request.
  Status Finish(uint32_t slot, std::span<const std::byte> received);

  // After the last Finish.
  Sample Result() const;

  const Point& point() const { return point_; }
  std::span<const std::byte> request(uint32_t slot) const {
    return slots_[slot].request.bytes().first(point_.bytes);
  }
  std::span<std::byte> response(uint32_t slot) const {
    return slots_[slot].response.bytes().first(point_.bytes);
  }

  static constexpr uint64_t kMinBytes = sizeof(uint64_t);

 private:
  enum class Phase { kWarmUp, kTimed, kOver };

  struct Slot {
    AlignedBuffer request;
    AlignedBuffer response;
    uint64_t number = 0;
    Clock::time_point started;
  };

  void EndPhase(double elapsed);
  bool IsAnswer(const Slot& slot, std::span<const std::byte> received) const;
  double CpuOfBoth() const;
  double ExtraMegabytes(const Memory& idle, const Memory& end, uint64_t tensors) const;

  Point point_;
  pid_t client_;
  pid_t server_;
  Memory idle_client_;
  Memory idle_server_;
  std::vector<Slot> slots_;

  Phase phase_ = Phase::kWarmUp;
  uint64_t next_number_ = 1;
  uint64_t finished_ = 0;  // In the present phase.
  Clock::time_point phase_began_;
  double cpu_seconds_ = 0;
  double machine_seconds_ = 0;
  double timed_seconds_ = 0;
  LatencyHistogram latencies_;
};

}  // namespace simurgh::bench
