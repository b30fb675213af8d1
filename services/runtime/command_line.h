#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <boost/program_options/options_description.hpp>

#include "simurgh/base/status.h"

// What the command lines of programs that are no daemons have in common; those of daemons: flags.h.
namespace simurgh {

struct ProgramTexts {
  const char* name;
  const char* usage;  // What --help begins with, and what it ends with.
  const char* notes;
};

// Stores what the command line gives where the options say; they include help and version. Names
// are given in full. False after --help and --version, which write to `out`. Errors:
// INVALID_ARGUMENT.
StatusOr<bool> ParseCommandLine(int argc, const char* const* argv, const ProgramTexts& texts,
                                const boost::program_options::options_description& options,
                                std::ostream& out);

// INVALID_ARGUMENT, with a hint to --help.
Status OptionProblem(const std::string& what);

// The comma-separated values of an option, at least one. Errors: INVALID_ARGUMENT for one that is
// no number from `least` to `most`, or not among the known words.
StatusOr<std::vector<uint32_t>> ParseNumbers(const std::string& option, const std::string& list,
                                             uint32_t most, uint32_t least = 1);
StatusOr<std::vector<std::string>> ParseWords(const std::string& option, const std::string& list,
                                              const std::vector<std::string>& known);

}  // namespace simurgh
