#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "data/encoded/bytes.h"
#include "simurgh/base/status.h"

namespace simurgh {

// Whether any weight is other than 1, which alone makes them worth their bytes.
bool IsWeighted(std::span<const float> weights);

// Reads the weights of occurrences [first, end) as they lie; those of occurrences between the ones
// that `weights` has and these are 1.
// Errors: INVALID_ARGUMENT, also for one that is not finite.
Status ReadWeights(ByteReader& in, size_t first, size_t end, std::vector<float>& weights);

}  // namespace simurgh
