#include "tests/unit/data/reader_test_support.h"

#include <catch2/catch.hpp>

namespace simurgh {

StatusOr<std::vector<ReadSample>> ReadSamples(const DataConfig& config,
                                              const std::vector<FeatureConfig>& features,
                                              const std::vector<std::string>& files,
                                              size_t batch_size) {
  SIMURGH_ASSIGN_OR_RETURN(auto reader, OpenBatchReader(config, features, files, batch_size));
  std::vector<ReadSample> samples;
  bool last_was_full = true;
  for (;;) {
    SIMURGH_ASSIGN_OR_RETURN(const auto batch, reader->Next());
    if (!batch.has_value()) return samples;
    REQUIRE(last_was_full);
    REQUIRE(batch->sparse->Validate().ok());
    REQUIRE(batch->sparse->feature_count() == features.size());
    REQUIRE(batch->sparse->batch_size == batch->size());
    last_was_full = batch->size() == batch_size;
    for (size_t b = 0; b < batch->size(); ++b) {
      const float* row = batch->dense.values.data() + b * batch->dense.width;
      ReadSample sample{.label = batch->dense.labels[b],
                        .dense = std::vector<float>(row, row + batch->dense.width),
                        .ids = {}};
      for (size_t f = 0; f < features.size(); ++f) {
        const FeatureView view = batch->sparse->feature(f);
        auto& ids = sample.ids.emplace_back();
        for (const uint32_t occurrence : view.sample(b)) ids.push_back(view.ids[occurrence]);
      }
      samples.push_back(std::move(sample));
    }
  }
}

DataConfig LabelAndNumber() {
  DataConfig config;
  config.columns = {Column("y", ColumnConfig::Kind::kLabel),
                    Column("x", ColumnConfig::Kind::kDense)};
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  config.max_bad_share = 1;
  return config;
}

ColumnConfig Column(const std::string& name, ColumnConfig::Kind kind) {
  ColumnConfig column;
  column.name = name;
  column.kind = kind;
  return column;
}

FeatureConfig Feature(const std::string& name) {
  FeatureConfig feature;
  feature.name = name;
  feature.column = name;
  feature.table = name;
  return feature;
}

}  // namespace simurgh
