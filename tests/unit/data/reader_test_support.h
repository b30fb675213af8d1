#pragma once

#include <string>
#include <vector>

#include "data/reading/batch_reader.h"

namespace simurgh {

// A sample taken out of its batch.
struct ReadSample {
  float label = 0.0F;
  std::vector<float> dense;
  std::vector<std::vector<uint64_t>> ids;  // Per feature.
};

// All samples of all batches. Requires every batch valid, and full but for the last.
StatusOr<std::vector<ReadSample>> ReadSamples(const DataConfig& config,
                                              const std::vector<FeatureConfig>& features,
                                              const std::vector<std::string>& files,
                                              size_t batch_size = 3);

// CSV rows y,x: a label and a number. Bad rows are skipped.
DataConfig LabelAndNumber();

// A column of the file.
ColumnConfig Column(const std::string& name, ColumnConfig::Kind kind);

// A feature that reads the column of its name.
FeatureConfig Feature(const std::string& name);

}  // namespace simurgh
