#pragma once

#include <exception>

#include "services/runtime/command_line.h"

namespace simurgh {

// Prints the error, and what to do about it if the system has refused memory, a thread or a file.
// Programs that use this also end with ExitCode::kRuntimeFailure, before they allocate anything, if
// the limits of address space or stack are too low: libraries crash then.
ExitCode ReportException(const char* program, const std::exception& error);

}  // namespace simurgh
