#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "simurgh/data/encoded_batch.h"

namespace simurgh::testing {

// Requires that the batch comes back as it was and valid; returns how it travelled.
EncodedBatch RequireRoundTrip(const CompactBatch& batch);

// Two digits and a space each.
std::string Hex(const std::vector<std::byte>& bytes);

}  // namespace simurgh::testing
