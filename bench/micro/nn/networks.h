#pragma once

#include <string>
#include <vector>

#include "nn/dense_network.h"
#include "nn/model_plan.h"

namespace simurgh::bench {

// A measured network, with the adam optimizer.
struct Subject {
  std::string name;
  ModelConfig model;
  ModelInputs inputs;
};

// `light`: 13 dense values and 26 embeddings of 16 through 256-128-64-1. `paper`: 13 dense values
// and 26 embeddings of 16 through 4096-2048-1024-512-256-1, of PERSIA's paper. `dlrm`: 26
// embeddings of 128, with MLPerf's towers. `dcn`: the first one's inputs through three cross layers
// and, in parallel, 1024-512 with batch norm.
const std::vector<Subject>& Subjects();

// Requires the name of a subject.
const Subject& SubjectOf(const std::string& name);

ModelPlan PlanOf(const Subject& subject);

// Operations of a sample's products: per weight 2 forward and 4 backward, without input gradients
// of towers that read only dense values.
double FlopPerSample(const Subject& subject);

}  // namespace simurgh::bench
