#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "config/cluster_config.h"
#include "data/batch/batch.h"
#include "predict/predictor.h"

namespace simurgh {

// How the numbers of a column differ from those of the training.
struct NumberDrift {
  std::string column;
  bool is_fitted = false;    // The next two are statistics of the training; else 0 and 1.
  double training_mean = 0;  // After the column's transform, as are all of these.
  double training_deviation = 1;
  double mean = 0;
  double deviation = 0;

  // Returns how far the mean has moved, in deviations of the training.
  double shift() const { return (mean - training_mean) / training_deviation; }
};

// How the ids of a column differ from those of the training.
struct IdDrift {
  std::string column;
  double unseen = 0;  // Share of ids without a row in the model.
  double empty = 0;   // Share of rows without an id.
  uint64_t ids = 0;   // Number of ids.
  // The table admits each id at once, so that an id without a row is one that training has not had.
  bool admits_all = true;
};

// Sums over the dense columns of an input.
//
// Threads: one at a time.
class NumberSums {
 public:
  void Add(const DenseBatch& batch);
  // Returns a drift for each column of dense numbers of the data.
  std::vector<NumberDrift> DriftOf(const DataConfig& data) const;

 private:
  double rows_ = 0;
  std::vector<double> sums_;
  std::vector<double> squares_;
};

// Returns a drift for each column that is the only one of a feature; counts: one per feature.
std::vector<IdDrift> DriftOf(std::span<const Predictor::IdCount> counts,
                             const ClusterConfig& config);

}  // namespace simurgh
