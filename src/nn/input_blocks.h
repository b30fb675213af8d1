#pragma once

#include "nn/model_plan.h"

namespace simurgh {

// Splits the embedding columns that towers read into blocks, of which any two are equal or
// disjoint. Finds each block's last reader and the columns without a reader. Requires all towers
// with their inputs.
void PlanInputBlocks(ModelPlan& plan);

}  // namespace simurgh
