#pragma once

#include <string>

namespace simurgh::testing {

struct CommandResult {
  int exit_code;
  std::string out;
  std::string error;
};

// Runs a shell command to its end.
CommandResult RunCommand(const std::string& command);

}  // namespace simurgh::testing
