#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/manifest.h"
#include "model/model_directory.h"
#include "model/tensor_file.h"

namespace simurgh {

// What a program keeps in a model besides the rows: tensors, and a text for the rest.
struct ProgramState {
  struct Tensor {
    TensorSpec spec;
    std::vector<std::byte> bytes;
  };

  std::string name;  // Name of the network, such as its class.
  std::string text;  // Everything that is no tensor.
  std::vector<Tensor> tensors;
};

// File of a program's tensors in a checkpoint.
inline constexpr char kProgramFile[] = "program.safetensors";

// Returns the state of a program's network. Errors: INVALID_ARGUMENT for a model without it;
// DATA_LOSS.
StatusOr<ProgramState> ReadProgram(const Checkpoint& checkpoint);
// Writes what a manifest has of a program's state, which is all but its tensors.
void WriteProgram(const ProgramState& state, Manifest& manifest);

// Errors: INVALID_ARGUMENT if a program computes the checkpoint's network, with the remedy.
Status CheckHasNetwork(const Checkpoint& checkpoint);

}  // namespace simurgh
