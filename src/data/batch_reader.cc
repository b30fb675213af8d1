#include "simurgh/data/batch_reader.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "data/file_batch_reader.h"
#include "data/process/feature_sink.h"

namespace simurgh {

namespace {

std::vector<std::string> DenseColumnsOfFile(const DataConfig& config) {
  if (config.format == DataConfig::Format::kCriteo) return CriteoDenseColumns();
  std::vector<std::string> names;
  for (const ColumnConfig& column : config.csv.columns) {
    if (column.kind == ColumnConfig::Kind::kDense) names.push_back(column.name);
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
  if (config.format == DataConfig::Format::kCriteo) return CriteoLabelColumns(config.criteo);
  std::vector<std::string> names;
  for (const ColumnConfig& column : config.csv.columns) {
    if (column.kind == ColumnConfig::Kind::kLabel) names.push_back(column.name);
  }
  return names;
}

std::vector<std::string> DenseColumns(const DataConfig& config) {
  std::vector<std::string> names = DenseColumnsOfFile(config);
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
  if (batch_size == 0 || batch_size > kMaxBatchSamples) {
    return absl::InvalidArgumentError(
        absl::StrFormat("batch size %d, must be 1 to %d", batch_size, kMaxBatchSamples));
  }
  if (options.share >= options.shares) {
    return absl::InvalidArgumentError(absl::StrFormat("share %d of %d; shares are numbered from 0",
                                                      options.share, options.shares));
  }
  const auto sink = [&](const std::vector<std::string>& columns) {
    return NewFeatureSink(columns, config, features);
  };
  const size_t tasks = LabelColumns(config).size();
  if (tasks == 0) return absl::InvalidArgumentError("csv: no label column; name at least one");
  return FileBatchReader::Open(config, sink, files,
                               BatchBuilder(ListsOf(features), DenseColumns(config).size(), tasks),
                               batch_size, options);
}

}  // namespace simurgh
