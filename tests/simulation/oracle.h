#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/plan.h"

namespace simurgh::simulation {

// A row as a checkpoint has it.
struct ExpectedRow {
  std::vector<float> values;  // Weights, then the optimizer's state.
  uint64_t uses = 0;
  uint64_t recency = 0;
};

// The rows of all tables by table and id.
using ExpectedRows = std::map<std::pair<uint32_t, uint64_t>, ExpectedRow>;

// The model after some steps.
struct ExpectedModel {
  ExpectedRows rows;
  DenseState dense;
  uint64_t samples = 0;
  std::string position;
};

// What training must give: applies each batch once, without a network, a disk or a death.
class Oracle {
 public:
  explicit Oracle(const Plan& plan);

  // The rows of the data that each rank has at each step.
  const std::vector<std::vector<std::vector<uint64_t>>>& steps() const { return steps_; }
  // The models of the steps before which training stops for a checkpoint, and of the end.
  const std::map<uint64_t, ExpectedModel>& models() const { return models_; }

 private:
  void Divide(const Plan& plan);
  void Train(const Plan& plan);

  std::vector<std::vector<std::vector<uint64_t>>> steps_;
  std::vector<std::string> positions_;  // After each step.
  std::map<uint64_t, ExpectedModel> models_;
};

}  // namespace simurgh::simulation
