#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hash.h"

namespace simurgh {

// A row's label is predicted from the rows of the other folds.
inline constexpr size_t kFolds = 4;

inline size_t FoldOf(size_t row) { return Mix64(row + 0x9e3779b97f4a7c15ULL) % kFolds; }

}  // namespace simurgh
