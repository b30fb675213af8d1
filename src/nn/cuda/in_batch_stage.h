#pragma once

#include <cstddef>
#include <cstdint>

#include "nn/cuda/in_batch_kernels.h"
#include "nn/cuda/memory_plan.h"
#include "nn/dense_network.h"
#include "nn/in_batch_items.h"

// What the host finds out about a step's items, in one piece of pinned memory.
namespace simurgh::cuda {

// Writes the data of a step for the device. layout: of shape.rows and shape.items, in the memory
// at `to`.
//
// Cost: looks each key up in a hash table, and with `counts` each slot of an item.
void StageItems(const InBatchItems& all, const InBatchShape& shape, const RankStep& step,
                bool counts, const InBatchLayout& layout, std::byte* to);

}  // namespace simurgh::cuda
