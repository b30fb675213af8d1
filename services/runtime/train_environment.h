#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace simurgh {

// What `simurgh train CONFIG -- PROGRAM` tells the program, in an environment variable.
struct TrainEnvironment {
  static constexpr char kVariable[] = "SIMURGH_TRAIN";

  std::string config;                  // Absolute path of the configuration.
  std::vector<std::string> overrides;  // "key=value", in order.
  std::string resume;                  // Value of nn-worker --resume.
  std::string result;                  // File for the result of the first rank.
  std::string codes;                   // Folder for the files of CodePath.

  // Returns the file in which a rank notes the exit code that an nn-worker would have, and then a
  // line with the reason of a failure.
  static std::string CodePath(const std::string& codes, size_t rank);
  std::string ToText() const;

  // Returns the environment of this process; nothing if no simurgh train has started it. Errors:
  // INVALID_ARGUMENT for a text that is not one of ToText().
  static StatusOr<std::optional<TrainEnvironment>> Get();
};

}  // namespace simurgh
