#pragma once

#include <memory>

// Owns the arrays that a function of the C interface has returned.
struct simurgh_memory {
  std::shared_ptr<const void> owner;
};
