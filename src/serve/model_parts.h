#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "serve/row_changes.h"
#include "serve/row_table.h"

#include "simurgh/feature/batch_plan.h"
#include "simurgh/feature/raw_masks.h"
#include "simurgh/nn/dense_model.h"
#include "simurgh/serve/model_version.h"

namespace simurgh {

struct ModelVersion::Common {
  Common(ClusterConfig configuration, ModelVersion::Options loading, const Manifest& manifest);

  // Whether a checkpoint has the same configuration and statistics.
  bool Fits(const Manifest& manifest) const;

  const ClusterConfig config;
  const RowFormat format;
  const BatchLayout layout;
  const RawMasks masks;
  const ModelVersion::Options options;
  const std::map<std::string, std::vector<double>> statistics;
  const std::vector<std::string> source;  // Texts of the configuration.
};

struct ModelVersion::Parts {
  std::shared_ptr<const DenseModel> dense;  // Null in a version of a share.
  std::vector<RowLayers> tables;            // By index in the configuration; empty if remote.
  RowChanges changes;                       // For caches, if remote.
};

// Predicts the rows of a checkpoint's probe.csv and compares. A checkpoint without one passes.
// Errors: FAILED_PRECONDITION for a difference, naming the row and both numbers; DATA_LOSS for a
// damaged probe; of Predictor.
Status CheckProbe(const Checkpoint& checkpoint, const ModelVersion& model);

}  // namespace simurgh
