#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

#include "config/sections.h"

namespace simurgh {
namespace {

using Kind = LayerConfig::Kind;

// The output width of a layer; 0 after a report.
size_t WidthAfter(const LayerConfig& layer, size_t width, size_t tower_width,
                  const std::string& path, Diagnostics* diagnostics) {
  switch (layer.kind) {
    case Kind::kLinear:
      return layer.width;
    case Kind::kSum:
      if (const uint32_t sums = std::max(layer.width, 1U); width % sums == 0) return sums;
      diagnostics->Report(
          path, absl::StrCat(width, " columns cannot be split into ", layer.width, " sums"),
          "read the same number of columns for each sum");
      return 0;
    case Kind::kCross:
      if (width == tower_width) return width;
      diagnostics->Report(
          path, absl::StrCat("cross on ", width, " columns in a tower that reads ", tower_width),
          "move layers of other widths after it, or to another tower");
      return 0;
    case Kind::kDot:
    case Kind::kFm: {
      const size_t vectors = width / layer.width;
      if (width % layer.width == 0 && vectors >= 2) {
        return layer.kind == Kind::kFm ? 1 : vectors * (vectors - 1) / 2;
      }
      diagnostics->Report(
          path,
          absl::StrCat(width, " columns are not a multiple of ", layer.width, ", at least ",
                       2 * layer.width),
          "read embeddings of one dim and towers of this width, and set that width");
      return 0;
    }
    case Kind::kBatchNorm:
    case Kind::kRelu:
    case Kind::kGelu:
    case Kind::kSigmoid:
      break;
  }
  return width;
}

}  // namespace

size_t DenseWidth(const ClusterConfig& config) {
  const std::vector<ColumnConfig> columns = ColumnsOf(config.data);
  auto width = static_cast<size_t>(
      std::ranges::count(columns, ColumnConfig::Kind::kDense, &ColumnConfig::kind));
  for (const DerivedConfig& derived : config.data.derived) width += derived.width;
  for (const FeatureConfig& feature : config.features) width += feature.mask_width();
  return width;
}

void CheckWidths(const ClusterConfig& config, Diagnostics* diagnostics) {
  std::map<std::string, size_t> widths = {{"dense", DenseWidth(config)},
                                          {"embeddings", config.embedding_width()}};
  for (const FeatureConfig& feature : config.features) {
    widths[kFeatureInput + feature.name] = feature.width(config.tables[feature.table_index].dim);
  }
  const std::vector<TowerConfig>& towers = config.model.towers;
  for (size_t t = 0; t < towers.size(); ++t) {
    size_t tower_width = 0;
    for (const std::string& input : towers[t].inputs) tower_width += widths[input];
    size_t width = tower_width;
    for (size_t i = 0; i < towers[t].layers.size(); ++i) {
      width = WidthAfter(towers[t].layers[i], width, tower_width,
                         absl::StrCat("model.towers.", t, ".layers.", i), diagnostics);
      if (width == 0) return;
    }
    widths[towers[t].name] = width;
  }
}

}  // namespace simurgh
