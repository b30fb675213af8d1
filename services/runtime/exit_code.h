#pragma once

namespace simurgh {

// What a program's exit says, to people and to supervisors. --help lists them.
enum class ExitCode : int {
  kOk = 0,                // Done, or stopped by a signal and drained.
  kBadConfiguration = 2,  // Flags or configuration: restarting does not help.
  kRuntimeFailure = 3,    // Something failed after a message that says what: restarting may help.
  kInterrupted = 130,     // A second signal cut the orderly end short.
};

}  // namespace simurgh
