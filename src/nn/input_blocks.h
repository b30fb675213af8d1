#pragma once

#include "nn/model_plan.h"

namespace simurgh {

// Cuts what the towers read of the embeddings into blocks of which any two are the same or
// disjoint, and finds the last reader of every block and the columns that nobody reads. Expects all
// towers with their inputs.
void PlanInputBlocks(ModelPlan& plan);

}  // namespace simurgh
