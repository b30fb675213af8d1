#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "data/encoded/bytes.h"
#include "simurgh/base/status.h"

namespace simurgh {

// Whether any weight differs from 1. Otherwise weights are not encoded.
bool IsWeighted(std::span<const float> weights);

// Reads the weights of occurrences [first, end) and appends them. Sets weights of skipped
// occurrences before `first` to 1.
// Errors: INVALID_ARGUMENT, also for a weight that is not finite.
Status ReadWeights(ByteReader& in, size_t first, size_t end, std::vector<float>& weights);

}  // namespace simurgh
