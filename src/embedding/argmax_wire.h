#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "data/batch/batch.h"
#include "embedding/batch_plan.h"

namespace simurgh {

// The argmax of a batch's max-pooled features as an array: feature after feature, sample after
// sample, element after element. Each is the position among the sample's ids, little-endian, in the
// fewest bytes for the batch's longest list of ids: 0 to 3. A sample without ids has zeros.
//
// argmax: (B * dim) for each max-pooled feature, in the layout of PoolingInput::argmax.
// Requires a valid batch of the layout. Threads: any.

size_t ArgmaxBytes(const BatchLayout& layout, const CompactBatch& batch);

// out: ArgmaxBytes.
void EncodeArgmax(const BatchLayout& layout, const CompactBatch& batch,
                  std::span<const uint32_t> argmax, std::span<std::byte> out);

// Errors: INVALID_ARGUMENT for a size other than ArgmaxBytes, or a position outside its sample.
Status DecodeArgmax(const BatchLayout& layout, const CompactBatch& batch,
                    std::span<const std::byte> bytes, std::span<uint32_t> argmax);

}  // namespace simurgh
