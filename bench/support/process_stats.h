#pragma once

#include <cstdint>

#include <sys/types.h>

namespace simurgh::bench {

// CPU time that all threads of a process have used, user and system, in seconds; of this process
// or of another of the same user.
double CpuSeconds(pid_t process);

// CPU time that all processes of the machine have used, the kernel's own work included, in seconds;
// in steps of the clock tick. 0 if the system does not report it.
double CpuSecondsOfMachine();

struct Memory {
  uint64_t resident_bytes = 0;  // Now (VmRSS).
  uint64_t peak_bytes = 0;      // Since the start or the last ForgetPeak (VmHWM).
};

Memory MemoryOf(pid_t process);

// Resets the peak to the memory resident now. Best effort: where the kernel does not allow it, the
// peak stays the one since the start.
void ForgetPeak(pid_t process);

}  // namespace simurgh::bench
