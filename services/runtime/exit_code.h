#pragma once

namespace simurgh {

// Listed by --help.
enum class ExitCode : int {
  kOk = 0,                // Done, or stopped by a signal and drained.
  kBadConfiguration = 2,  // Flags or configuration; a restart does not help.
  kRuntimeFailure = 3,    // The log has the reason; a restart may help.
  kStartAgain = 4,        // Start all nn-workers and loaders again: they continue.
  kInterrupted = 130,     // A second signal interrupted the shutdown.
};

}  // namespace simurgh
