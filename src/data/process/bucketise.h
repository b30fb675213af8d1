#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace simurgh {

// How many of the boundaries are at most `value`: 0 to boundaries.size().
// Requires ascending boundaries.
uint64_t BucketOf(std::span<const double> boundaries, double value);

// The values, of those given, that token them into `buckets` of as equal a size as ties allow;
// ascending, without repetitions, at most buckets - 1. Requires buckets > 0 and no NaN.
// Cost: sorts.
std::vector<double> QuantileBoundaries(std::vector<double> values, uint32_t buckets);

}  // namespace simurgh
