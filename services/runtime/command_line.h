#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <boost/program_options/options_description.hpp>

#include "base/status.h"

namespace simurgh {

// The exit codes of all programs; --help lists them.
enum class ExitCode : int {
  kOk = 0,                // The work is done, or a signal stopped it and it has drained.
  kBadConfiguration = 2,  // Bad flags or configuration; a restart does not help.
  kRuntimeFailure = 3,    // The log has the reason; a restart may help.
  kStartAgain = 4,        // Start all nn-workers and loaders again: they continue.
  kInterrupted = 130,     // A second signal interrupted the shutdown.
};

struct ProgramTexts {
  const char* name;
  const char* usage;  // The first part of --help.
  const char* notes;  // The last part of --help.
};

// Sets the options' values. Requires: the options include help; version is optional. words:
// receives the arguments that are not options; without it they are errors. Returns false after
// --help and --version, which write to `out`. Errors: INVALID_ARGUMENT, also for abbreviated names.
StatusOr<bool> ParseCommandLine(int argc, const char* const* argv, const ProgramTexts& texts,
                                const boost::program_options::options_description& options,
                                std::ostream& out, std::vector<std::string>* words = nullptr);

// Flushes stdout. Errors: DATA_LOSS if any of the process's output to it was lost.
Status FlushOutput();

// Returns INVALID_ARGUMENT, with a hint to --help.
Status OptionProblem(const std::string& what);

// Checks the value of an option --host: throws boost::program_options::error if it is empty, as
// after the expansion of an unset variable.
void RefuseEmptyHost(const std::string& host);

}  // namespace simurgh
