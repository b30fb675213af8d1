#include "services/nn_worker/network_description.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <nlohmann/json.hpp>

#include "simurgh/data/batch_reader.h"
#include "simurgh/train/model_inputs.h"

namespace simurgh {
namespace {

using Json = nlohmann::ordered_json;

const char* NameOf(Pooling pooling) {
  switch (pooling) {
    case Pooling::kSum:
      return "sum";
    case Pooling::kMean:
      return "mean";
    case Pooling::kSqrtN:
      return "sqrt_n";
    case Pooling::kMax:
      return "max";
    case Pooling::kWeightedSum:
      return "weighted_sum";
    case Pooling::kRaw:
      return "raw";
  }
  return "";
}

Json Describe(const LayerConfig& layer) {
  switch (layer.kind) {
    case LayerConfig::Kind::kLinear:
      return {{"kind", "linear"}, {"width", layer.width}};
    case LayerConfig::Kind::kBatchNorm:
      return {{"kind", "batch_norm"}, {"momentum", layer.momentum}, {"epsilon", layer.epsilon}};
    case LayerConfig::Kind::kRelu:
      return {{"kind", "relu"}};
    case LayerConfig::Kind::kGelu:
      return {{"kind", "gelu"}};
    case LayerConfig::Kind::kSigmoid:
      return {{"kind", "sigmoid"}};
    case LayerConfig::Kind::kDot:
      return {{"kind", "dot"}, {"width", layer.width}};
    case LayerConfig::Kind::kCross:
      return {{"kind", "cross"}, {"rank", layer.rank}};
    case LayerConfig::Kind::kFm:
      return {{"kind", "fm"}, {"width", layer.width}};
    case LayerConfig::Kind::kSum:
      return {{"kind", "sum"}, {"width", std::max(layer.width, 1U)}};
    case LayerConfig::Kind::kMean:
      return {{"kind", "mean"}};
    case LayerConfig::Kind::kLast:
      return {{"kind", "last"}};
    case LayerConfig::Kind::kAttention:
      return {{"kind", "attention"}, {"hidden", layer.hidden}};
    case LayerConfig::Kind::kSoftmax:
      return {{"kind", "softmax"}};
    case LayerConfig::Kind::kMix:
      return {{"kind", "mix"}, {"width", layer.width}};
  }
  return {};
}

Json Describe(const TowerConfig& tower, const ClusterConfig& config) {
  Json layers = Json::array();
  for (const LayerConfig& layer : tower.layers) {
    layers.push_back(Describe(layer));
    if (!PoolsSequence(layer)) continue;
    for (const FeatureConfig& feature : config.features) {
      if (tower.inputs.back() != kMaskInput + feature.name) continue;
      layers.back()["dim"] = config.tables[feature.table_index].dim;
    }
  }
  return {{"name", tower.name}, {"inputs", tower.inputs}, {"layers", std::move(layers)}};
}

Json Describe(const FeatureConfig& feature, const TableConfig& table) {
  return {{"feature", feature.name},
          {"table", table.name},
          {"dim", table.dim},
          {"width", feature.width(table.dim)},
          {"pooling", NameOf(feature.pooling)},
          {"rows_per_id", std::max(feature.hash_stack.rounds, 1U)}};
}

std::vector<std::string> DenseNames(const ClusterConfig& config) {
  std::vector<std::string> names = DenseColumns(config.data);
  for (const FeatureConfig& feature : config.features) {
    for (uint32_t i = 0; i < feature.mask_width(); ++i) {
      names.push_back(absl::StrCat("mask.", feature.name, ".", i));
    }
  }
  return names;
}

}  // namespace

std::string DescribeNetwork(const ClusterConfig& config) {
  Json embeddings = Json::array();
  for (const FeatureConfig& feature : config.features) {
    embeddings.push_back(Describe(feature, config.tables[feature.table_index]));
  }
  Json towers = Json::array();
  for (const TowerConfig& tower : config.model.towers) towers.push_back(Describe(tower, config));
  Json losses = Json::array();
  for (const TaskConfig& task : config.model.tasks) losses.push_back(NameOf(task.loss.kind));
  const Json network = {{"labels", LabelColumns(config.data)},
                        {"losses", std::move(losses)},
                        {"keep_negatives", config.training.keep_negatives},
                        {"dense", DenseNames(config)},
                        {"embeddings", std::move(embeddings)},
                        {"towers", std::move(towers)}};
  return network.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace simurgh
