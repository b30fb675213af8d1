#pragma once

#include <cstddef>
#include <memory>

namespace simurgh::cuda {

// Memory from an executor, with its deleter.
using DeviceMemory = std::unique_ptr<std::byte, void (*)(std::byte*)>;

inline DeviceMemory NoMemory() {
  return {nullptr, [](std::byte*) {}};
}

}  // namespace simurgh::cuda
