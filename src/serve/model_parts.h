#pragma once

#include <memory>
#include <vector>

#include "serve/row_table.h"

#include "simurgh/feature/batch_plan.h"
#include "simurgh/feature/raw_masks.h"
#include "simurgh/nn/dense_model.h"
#include "simurgh/serve/model_version.h"

namespace simurgh {

struct ModelVersion::Common {
  Common(ClusterConfig configuration, ModelVersion::Options loading);

  const ClusterConfig config;
  const RowFormat format;
  const BatchLayout layout;
  const RawMasks masks;
  const ModelVersion::Options options;
};

struct ModelVersion::Parts {
  std::shared_ptr<const DenseModel> dense;
  std::vector<RowLayers> tables;  // By index in the configuration.
};

// Predicts the rows of a checkpoint's probe.csv and compares. A checkpoint without one passes.
// Errors: FAILED_PRECONDITION for a difference, naming the row and both numbers; DATA_LOSS for a
// damaged probe; of Predictor.
Status CheckProbe(const Checkpoint& checkpoint, const ModelVersion& model);

}  // namespace simurgh
