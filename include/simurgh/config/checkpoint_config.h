#pragma once

#include <string>

namespace simurgh {

// YAML section `checkpoint`.
struct CheckpointConfig {
  // Path of the folder for the trained model, which need not exist; empty: nothing is saved.
  std::string directory;
};

}  // namespace simurgh
