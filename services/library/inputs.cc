#include "services/library/inputs.h"

#include <algorithm>
#include <string_view>

#include "data/reading/batch_reader.h"
#include "services/nn_worker/network_description.h"

namespace simurgh {

InputsView::InputsView(const ClusterConfig& config, uint32_t rank, bool has_masks)
    : dense_names_(has_masks ? DenseNames(config) : DenseColumns(config.data)) {
  for (const std::string& name : dense_names_) dense_columns_.push_back(name.c_str());
  uint64_t column = 0;
  uint64_t mask = DenseColumns(config.data).size();
  for (const FeatureConfig& feature : config.features) {
    const uint32_t dim = config.tables[feature.table_index].dim;
    features_.push_back({.name = feature.name.c_str(),
                         .first_column = column,
                         .width = feature.width(dim),
                         .dim = dim,
                         .mask_width = has_masks ? feature.mask_width() : 0,
                         .first_mask_column = has_masks ? mask : 0});
    column += features_.back().width;
    mask += features_.back().mask_width;
  }
  for (const TaskConfig& task : config.model.tasks) {
    labels_.push_back(task.label.c_str());
    losses_.push_back(NameOf(task.loss.kind));
  }
  inputs_ = {.size = sizeof(inputs_),
             .features = features_.data(),
             .feature_count = features_.size(),
             .embedding_width = column,
             .dense_columns = dense_columns_.data(),
             .dense_width = dense_columns_.size(),
             .labels = labels_.data(),
             .losses = losses_.data(),
             .label_count = labels_.size(),
             .batch_size = config.training.batch_size,
             .rank = rank,
             .ranks = static_cast<uint32_t>(config.nn_worker.instances.size()),
             .saves = config.checkpoint.directory.empty() ? 0U : 1U,
             .weighs = HasSampleWeights(config.data) ? 1U : 0U};
  const bool evaluates = !config.data.validation.empty() || !config.data.test.empty();
  inputs_.predicts = evaluates || inputs_.saves == 1 ? 1 : 0;
}

bool InputsView::Fits(const InputsView& other) const {
  const auto is_same = [](const char* one, const char* another) {
    return std::string_view(one) == another;
  };
  return dense_names_ == other.dense_names_ &&
         std::ranges::equal(labels_, other.labels_, is_same) &&
         std::ranges::equal(features_, other.features_,
                            [&](const simurgh_feature& one, const simurgh_feature& another) {
                              return is_same(one.name, another.name) &&
                                     one.width == another.width && one.dim == another.dim &&
                                     one.mask_width == another.mask_width;
                            });
}

}  // namespace simurgh
