#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/batch/encoded_batch.h"

namespace simurgh::testing {

// Requires that the decoded batch is valid and equals `batch`. Returns the encoded one.
EncodedBatch RequireRoundTrip(const CompactBatch& batch);

// Appends numbers in the given bits, least significant bit first.
class Bits {
 public:
  Bits& Put(uint64_t value, int count);
  // Padded with zeros to a byte.
  std::vector<std::byte> bytes() const;

 private:
  std::vector<bool> bits_;
};

// The fixed part of a batch's codes.
Bits HeadOf(uint64_t samples, uint64_t features, uint64_t lists, uint64_t occurrences,
            bool weighted = false);

}  // namespace simurgh::testing
