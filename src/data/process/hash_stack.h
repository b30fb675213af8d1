#pragma once

#include <cstdint>
#include <span>

#include "simurgh/config/feature_config.h"

namespace simurgh {

// The rows of a hash stack for `id`, whose vector is their sum. With h_0 = id and
// h_r = FarmHash64(h_{r-1} as 8 little-endian bytes), row r (from 1) is
// h_r % buckets + (r - 1) * buckets, so that rounds never share a row. Two ids share all their rows
// with probability buckets^-rounds.
//
// rows: (config.rounds), overwritten. Requires buckets > 0.
// Threads: any.
// Source: PERSIA (Lian et al., arXiv 2111.05897); FarmHash's Fingerprint64, which is the same on
// every machine. Its values are part of the data format.
void HashStackRows(const HashStackConfig& config, uint64_t id, std::span<uint64_t> rows);

}  // namespace simurgh
