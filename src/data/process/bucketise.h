#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace simurgh {

// The number of boundaries <= value.
// Requires ascending boundaries.
uint64_t BucketOf(std::span<const double> boundaries, double value);

// Up to buckets - 1 distinct ascending values that split `values` into buckets of equal size, as
// far as ties allow. Requires buckets > 0 and no NaN. Cost: sorts.
std::vector<double> QuantileBoundaries(std::vector<double> values, uint32_t buckets);

}  // namespace simurgh
