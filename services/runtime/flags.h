#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include <boost/program_options/options_description.hpp>

#include "simurgh/base/status.h"

namespace simurgh {

// Flags of all daemons.
struct DaemonFlags {
  std::string config_path;             // --config FILE
  uint32_t index = 0;                  // --index N: the instance of the section.
  std::vector<std::string> overrides;  // --set key=value, in order.
  bool check_config = false;           // --check-config
  std::string log_level = "info";      // --log-level and --log-format, as for InitLogging.
  std::string log_format = "text";
};

// Parts of --help.
struct ProgramUsage {
  std::string program;
  std::string summary;                      // One or two sentences.
  std::string arguments = "--config FILE";  // That are required; without --config it is optional.

  // A program's own options, bound to its variables (boost::program_options::value(&variable)).
  boost::program_options::options_description own_options{"Options of this program"};
};

// Parses a command line. Returns nothing after --help, --version or --describe-config, which write
// to `out`.
//
// Errors: INVALID_ARGUMENT, one line, for an unknown or incomplete flag, a positional argument, a
// value out of range, or a missing --config.
StatusOr<std::optional<DaemonFlags>> ParseFlags(const ProgramUsage& usage, int argc,
                                                const char* const* argv, std::ostream& out);

}  // namespace simurgh
