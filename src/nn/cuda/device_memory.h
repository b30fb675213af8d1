#pragma once

#include <cstddef>
#include <memory>

namespace simurgh::cuda {

// A block that an executor gave, with what gives it back.
using DeviceMemory = std::unique_ptr<std::byte, void (*)(std::byte*)>;

inline DeviceMemory NoMemory() {
  return {nullptr, [](std::byte*) {}};
}

}  // namespace simurgh::cuda
