#pragma once

#include <string>
#include <vector>

#include "simurgh/nn/dense_network.h"

namespace simurgh::bench {

// A network that is measured, with the adam optimizer.
struct Subject {
  std::string name;
  ModelConfig model;
  ModelInputs inputs;
};

// `paper`: 13 dense values and 26 embeddings of 16 through 4096-2048-1024-512-256-1, of PERSIA's
// paper. `dlrm`: 26 embeddings of 128, with MLPerf's towers.
const std::vector<Subject>& Subjects();

// Of one sample's products, forward and back: 2 operations a weight forward, 4 back, less what a
// tower that reads only dense values need not compute.
double FlopPerSample(const Subject& subject);

}  // namespace simurgh::bench
