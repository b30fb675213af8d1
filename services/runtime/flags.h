#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include <boost/program_options/options_description.hpp>

#include "simurgh/base/status.h"

namespace simurgh {

// What every daemon's command line says.
struct DaemonFlags {
  std::string config_path;  // --config FILE
  uint32_t index = 0;       // --index N: which of the section's instances this process is.
  std::vector<std::string> overrides;  // --set key=value, in their order.
  bool check_config = false;           // --check-config
  std::string log_level = "info";      // --log-level; one that InitLogging takes.
};

// What --help says beside the common flags.
struct ProgramUsage {
  std::string program;  // As one types it.
  std::string summary;  // A sentence or two.

  // A program's own options, bound to its variables (boost::program_options::value(&variable)).
  boost::program_options::options_description own_options{"Options of its own"};
};

// Reads a command line. Nothing after --help or --version, whose text goes to `out`.
//
// Errors: INVALID_ARGUMENT, one line, for an unknown or incomplete flag, an argument that is no
// flag, a value out of range, or no --config.
StatusOr<std::optional<DaemonFlags>> ParseFlags(const ProgramUsage& usage, int argc,
                                                const char* const* argv, std::ostream& out);

}  // namespace simurgh
