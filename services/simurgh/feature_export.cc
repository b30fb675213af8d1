#include "services/simurgh/feature_export.h"

#include <span>
#include <utility>

#include "simurgh/data/batch_reader.h"
#include "simurgh/train/model_inputs.h"

namespace simurgh {
namespace {

template <typename T>
std::span<const std::byte> BytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

StatusOr<FeatureExport> FeatureExport::Create(const ClusterConfig& config,
                                              const std::string& folder, bool has_labels) {
  std::vector<TensorSpec> tensors;
  std::vector<Feature> features;
  for (const FeatureConfig& feature : config.features) {
    features.push_back({.ids = tensors.size(),
                        .has_weights = feature.weight_separator != '\0' ||
                                       !feature.processing.plugin.path.empty()});
    tensors.push_back({feature.name + ".ids", DType::kU64, {0}});
    tensors.push_back({feature.name + ".offsets", DType::kU64, {0}});
    if (features.back().has_weights)
      tensors.push_back({feature.name + ".weights", DType::kF32, {0}});
  }
  const size_t dense = tensors.size();
  const size_t width = InputsOf(config).dense_width;
  if (width > 0) tensors.push_back({"dense", DType::kF32, {0, width}});
  if (has_labels) tensors.push_back({"labels", DType::kF32, {0, LabelColumns(config.data).size()}});
  SIMURGH_ASSIGN_OR_RETURN(TensorSpool spool, TensorSpool::Create(folder, std::move(tensors)));
  FeatureExport result(config, std::move(spool), std::move(features), dense);
  result.has_dense_ = width > 0;
  result.has_labels_ = has_labels;
  const std::vector<uint64_t> zero = {0};
  for (const Feature& feature : result.features_) {
    SIMURGH_RETURN_IF_ERROR(result.spool_.Append(feature.ids + 1, BytesOf(zero)));
  }
  return result;
}

Status FeatureExport::Add(Batch batch) {
  masks_.AppendTo(batch);
  std::vector<uint64_t> numbers;
  for (size_t f = 0; f < features_.size(); ++f) {
    Feature& feature = features_[f];
    const FeatureView view = batch.sparse->feature(f);
    numbers.clear();
    for (const uint32_t occurrence : view.occurrences) numbers.push_back(view.ids[occurrence]);
    SIMURGH_RETURN_IF_ERROR(spool_.Append(feature.ids, BytesOf(numbers)));
    numbers.clear();
    for (const uint32_t offset : view.offsets.subspan(1)) {
      numbers.push_back(feature.occurrences + offset - view.offsets[0]);
    }
    SIMURGH_RETURN_IF_ERROR(spool_.Append(feature.ids + 1, BytesOf(numbers)));
    if (feature.has_weights) {
      std::vector<float> weights(view.weights.begin(), view.weights.end());
      weights.resize(view.occurrences.size(), 1.0F);  // A batch can leave out weights of 1.
      SIMURGH_RETURN_IF_ERROR(spool_.Append(feature.ids + 2, BytesOf(weights)));
    }
    feature.occurrences += view.occurrences.size();
  }
  size_t next = dense_;
  if (has_dense_) SIMURGH_RETURN_IF_ERROR(spool_.Append(next++, BytesOf(batch.dense.values)));
  if (has_labels_) SIMURGH_RETURN_IF_ERROR(spool_.Append(next, BytesOf(batch.dense.labels)));
  samples_ += batch.size();
  return absl::OkStatus();
}

}  // namespace simurgh
