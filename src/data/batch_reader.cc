#include "simurgh/data/batch_reader.h"

#include <map>

#include "absl/strings/str_cat.h"

#include "data/file_batch_reader.h"
#include "data/process/feature_consumer.h"
#include "simurgh/base/check.h"

namespace simurgh {

namespace {

std::vector<std::string> NamesOf(const DataConfig& config, ColumnConfig::Kind kind) {
  std::vector<std::string> names;
  for (const ColumnConfig& column : ColumnsOf(config)) {
    if (column.kind == kind) names.push_back(column.name);
  }
  return names;
}

// Features of one table share a list.
std::vector<uint32_t> ListsOf(const std::vector<FeatureConfig>& features) {
  std::vector<uint32_t> lists;
  std::map<uint32_t, uint32_t> list_of_table;
  for (const FeatureConfig& feature : features) {
    const auto next = static_cast<uint32_t>(list_of_table.size());
    lists.push_back(list_of_table.try_emplace(feature.table_index, next).first->second);
  }
  return lists;
}

}  // namespace

std::vector<std::string> LabelColumns(const DataConfig& config) {
  return NamesOf(config, ColumnConfig::Kind::kLabel);
}

std::vector<std::string> DenseColumns(const DataConfig& config) {
  std::vector<std::string> names = NamesOf(config, ColumnConfig::Kind::kDense);
  for (const DerivedConfig& derived : config.derived) {
    for (uint32_t i = 0; i < derived.width; ++i) {
      names.push_back(derived.width == 1 ? derived.name : absl::StrCat(derived.name, ".", i));
    }
  }
  return names;
}

StatusOr<std::unique_ptr<BatchReader>> OpenBatchReader(const DataConfig& config,
                                                       const std::vector<FeatureConfig>& features,
                                                       const std::vector<std::string>& files,
                                                       size_t batch_size,
                                                       const ReadOptions& options) {
  SIMURGH_CHECK(0 < batch_size && batch_size <= kMaxBatchSamples) << batch_size;
  SIMURGH_CHECK_LT(options.share, options.shares);
  SIMURGH_ASSIGN_OR_RETURN(auto consumer, NewFeatureConsumer(config, features));
  return FileBatchReader::Open(
      config, std::move(consumer), files,
      BatchBuilder(ListsOf(features), DenseColumns(config).size(), LabelColumns(config).size()),
      batch_size, options);
}

}  // namespace simurgh
