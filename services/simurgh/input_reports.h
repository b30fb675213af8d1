#pragma once

#include <cstdint>
#include <vector>

#include "config/data_config.h"
#include "config/feature_config.h"
#include "data/batch/batch.h"
#include "predict/predictor.h"

// Reports of `simurgh predict` on rows that differ from those of the training.
namespace simurgh {

// Counts numbers far from those of the training, such as prices in another currency.
//
// Threads: one at a time.
class FarNumbers {
 public:
  void Count(const DenseBatch& batch);
  // Warns of columns that have such numbers.
  void Report(const DataConfig& data) const;

 private:
  static constexpr float kFar = 50;  // In standard deviations.

  std::vector<uint64_t> counts_;  // One per dense column.
};

// Returns the share of all ids that have no row in the model.
double UnseenShare(const std::vector<Predictor::IdCount>& counts);

// Warns of columns whose ids the model does not have. is_csv: a column is there even if all its
// cells are empty.
void ReportUnseenIds(const std::vector<FeatureConfig>& features,
                     const std::vector<Predictor::IdCount>& counts, bool is_csv);

}  // namespace simurgh
