#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/datagen/generator.h"

namespace simurgh::bench {

inline constexpr std::string_view kDistributions[] = {"zipf1.05", "zipf1.2", "uniform"};

inline constexpr size_t kBenchFeatures = Generator::kFeatures;
inline constexpr uint64_t kNoId = 0;

// Ids of `samples` samples, sample after sample, kBenchFeatures each; kNoId where a cell is empty.
std::vector<uint64_t> DrawSamples(std::string_view distribution, size_t samples, double missing,
                                  uint64_t seed);

}  // namespace simurgh::bench
