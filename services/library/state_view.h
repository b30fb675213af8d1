#pragma once

#include <vector>

#include "simurgh/simurgh.h"
#include "train/program_state.h"

namespace simurgh {

// The arrays of a simurgh_state that the library returns.
class StateView {
 public:
  // Lifetime: the state outlives the view.
  void Set(const ProgramState& state, simurgh_state* view) {
    tensors_.clear();
    for (const ProgramState::Tensor& tensor : state.tensors) {
      tensors_.push_back({.name = tensor.spec.name.c_str(),
                          .dtype = static_cast<uint32_t>(tensor.spec.dtype),
                          .dimensions = static_cast<uint32_t>(tensor.spec.shape.size()),
                          .shape = tensor.spec.shape.data(),
                          .data = tensor.bytes.data()});
    }
    *view = {.name = state.name.c_str(),
             .text = state.text.c_str(),
             .tensors = tensors_.data(),
             .tensor_count = tensors_.size()};
  }

 private:
  std::vector<simurgh_tensor> tensors_;
};

}  // namespace simurgh
