#include "simurgh/train/model_inputs.h"

#include "simurgh/data/batch_reader.h"
#include "simurgh/feature/raw_masks.h"

namespace simurgh {

ModelInputs InputsOf(const ClusterConfig& config) {
  ModelInputs inputs{
      .dense_width = DenseColumns(config.data).size() + RawMasks(config.features).width(),
      .embedding_width = config.embedding_width(),
      .has_sample_weights = HasSampleWeights(config.data)};
  for (const FeatureConfig& feature : config.features) {
    inputs.features.push_back({feature.name, feature.width(config.tables[feature.table_index].dim),
                               feature.mask_width()});
  }
  return inputs;
}

}  // namespace simurgh
