#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "simurgh/data/encoded_batch.h"

namespace simurgh::testing {

// Requires that the decoded batch is valid and equals `batch`. Returns the encoded one.
EncodedBatch RequireRoundTrip(const CompactBatch& batch);

// Two digits and a space each.
std::string Hex(const std::vector<std::byte>& bytes);

}  // namespace simurgh::testing
