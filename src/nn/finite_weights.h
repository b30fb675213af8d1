#pragma once

#include <span>

#include "nn/model_plan.h"
#include "simurgh/base/status.h"

namespace simurgh {

// See DenseNetwork::CheckFinite. The spans have the layout of the plan.
Status CheckFiniteWeights(const ModelPlan& plan, std::span<const float> parameters,
                          std::span<const float> statistics);

}  // namespace simurgh
