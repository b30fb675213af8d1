#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "simurgh/base/status.h"

namespace simurgh {

// A process of `simurgh train`. The pid alone does not name it: the system uses pids again.
struct RunProcess {
  std::string name;  // "embedding-ps-0"; "simurgh" for the command itself, the first one.
  pid_t pid = 0;
  uint64_t start_time = 0;  // Of StartTimeOf.
  std::string log = {};     // Path; may be empty.
};

// The file `state` in the folder of a run's logs.
struct RunState {
  std::vector<RunProcess> processes = {};  // None: the run has ended.
  std::optional<int> exit_code = {};       // Of a run that has ended by itself.
};

// In ticks since the boot. Nothing if there is no such process. Source: proc(5), /proc/pid/stat.
std::optional<uint64_t> StartTimeOf(pid_t pid);

// Errors: UNAVAILABLE. A reader sees the old file or the new one.
Status WriteRunState(const std::string& folder, const RunState& state);
// Errors: NOT_FOUND without a file; DATA_LOSS.
StatusOr<RunState> ReadRunState(const std::string& folder);

}  // namespace simurgh
