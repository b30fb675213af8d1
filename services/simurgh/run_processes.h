#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/status.h"

namespace simurgh {

// Starts words[0], a path or a name to be found by PATH, with the other words as arguments. The
// child has an empty stdin. Its stdout goes to the file `output`, which is created or overwritten.
// Its stderr is appended to the file `errors`. An empty name stands for this process's stdout or
// stderr.
//
// The child does not outlive this process: the kernel kills it when this process ends, even by
// SIGKILL. The child has its own process group, so that Ctrl-C at a terminal does not reach it. If
// it is `detached`, it has its own session instead and outlives this process. No signal is blocked
// in the child. If it cannot execute the program, it writes the reason to stderr and exits with
// 127.
//
// Errors: UNAVAILABLE if a file cannot be opened, or the system has no room for a process.
// Threads: the main one; the kernel kills a child when the thread that started it ends.
StatusOr<pid_t> StartProcess(const std::vector<std::string>& words, const std::string& output,
                             const std::string& errors, bool detached);

// Returns "ended with code 3" or "was killed by signal 9 (Killed)". wait_status: from waitpid.
std::string DescribeEnd(int wait_status);

// A process of `simurgh train`. The pid alone does not identify it: the system reuses pids.
struct RunProcess {
  std::string name;  // "embedding-ps-0"; "simurgh" for the command itself, the first one.
  pid_t pid = 0;
  uint64_t start_time = 0;  // Result of StartTimeOf.
  std::string log = {};     // Path of the log; may be empty.
};

// The file `state` in the folder of a run's logs.
struct RunState {
  std::vector<RunProcess> processes = {};  // None: the run has ended.
  std::optional<int> exit_code = {};       // Set if the run has ended by itself.
};

// Returns the start time of a process in ticks since the boot. Nothing if there is no such process.
// Source: proc(5), /proc/pid/stat.
std::optional<uint64_t> StartTimeOf(pid_t pid);

// Replaces the file: a reader sees the old one or the new one. Errors: UNAVAILABLE.
Status WriteRunState(const std::string& folder, const RunState& state);
// Reads the file. Errors: NOT_FOUND without a file; DATA_LOSS for a damaged one.
StatusOr<RunState> ReadRunState(const std::string& folder);

}  // namespace simurgh
