#include "data/reading/batch_reader.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "config/uri.h"
#include "data/processing/feature_consumer.h"
#include "data/reading/record_stream.h"
#include "data/reading/row_batcher.h"
#include "data/reading/row_parser.h"
#include "data/reading/row_source.h"
#include "data/reading/row_text.h"

namespace simurgh {

namespace {

std::vector<std::string> NamesOf(const DataConfig& config, ColumnConfig::Kind kind) {
  std::vector<std::string> names;
  for (const ColumnConfig& column : ColumnsOf(config)) {
    if (column.kind == kind) names.push_back(column.name);
  }
  return names;
}

// Returns the list of each feature. Features of one table share a list.
std::vector<uint32_t> ListsOf(const std::vector<FeatureConfig>& features) {
  std::vector<uint32_t> lists;
  std::map<uint32_t, uint32_t> list_of_table;
  for (const FeatureConfig& feature : features) {
    const auto next = static_cast<uint32_t>(list_of_table.size());
    lists.push_back(list_of_table.try_emplace(feature.table_index, next).first->second);
  }
  return lists;
}

StatusOr<std::vector<std::unique_ptr<RowConsumer>>> ConsumersOf(
    const DataConfig& config, const std::vector<FeatureConfig>& features, uint32_t count) {
  std::vector<std::unique_ptr<RowConsumer>> consumers(count);
  for (auto& consumer : consumers) {
    SIMURGH_ASSIGN_OR_RETURN(consumer, NewFeatureConsumer(config, features));
  }
  return consumers;
}

// Returns whether to read a file ahead. With a pipe or stream, that could wait for its writer where
// the caller need not.
bool IsReadAhead(const std::string& file) {
  std::error_code failed;
  return IsUri(file) || std::filesystem::is_regular_file(file, failed);
}

}  // namespace

BatchBuilder NewBuilder(const DataConfig& config, const std::vector<FeatureConfig>& features) {
  return {ListsOf(features), DenseColumns(config).size(), LabelColumns(config).size(),
          HasSampleWeights(config)};
}

struct RowBatcher::State {
  std::unique_ptr<RowParser> parser;
  BatchBuilder builder;

  Status End(const Status& parsed) {
    parsed.ok() ? builder.EndSample() : builder.AbandonSample();
    return parsed;
  }
};

RowBatcher::RowBatcher(std::unique_ptr<State> state) : state_(std::move(state)) {}
RowBatcher::~RowBatcher() = default;
RowBatcher::RowBatcher(RowBatcher&&) noexcept = default;

StatusOr<RowBatcher> RowBatcher::Create(const DataConfig& config,
                                        const std::vector<FeatureConfig>& features,
                                        bool ignore_labels) {
  const DataConfig lines = LinesOf(config);
  SIMURGH_ASSIGN_OR_RETURN(auto consumer, NewFeatureConsumer(lines, features));
  return RowBatcher(std::make_unique<State>(State{
      NewRowParser(lines, ignore_labels, std::move(consumer)), NewBuilder(config, features)}));
}

Status RowBatcher::AddLine(std::string_view line, const FileColumns* columns) {
  return state_->End(state_->parser->Parse(line, columns, state_->builder));
}

Status RowBatcher::AddCells(std::span<const Cell* const> cells, std::span<const bool> repeated) {
  return state_->End(state_->parser->ParseCells(cells, repeated, state_->builder));
}

size_t RowBatcher::size() const { return state_->builder.size(); }

StatusOr<Batch> RowBatcher::Build() { return state_->builder.Build(); }

std::vector<std::string> LabelColumns(const DataConfig& config) {
  return NamesOf(config, ColumnConfig::Kind::kLabel);
}

uint32_t ReadingThreads(const DataConfig& config) {
  return config.threads > 0 ? config.threads
                            : std::clamp(std::thread::hardware_concurrency(), 1U, 4U);
}

bool HasSampleWeights(const DataConfig& config) {
  return !NamesOf(config, ColumnConfig::Kind::kWeight).empty();
}

std::vector<std::string> DenseColumns(const DataConfig& config) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name, uint32_t width) {
    for (uint32_t i = 0; i < width; ++i) {
      names.push_back(width == 1 ? name : absl::StrCat(name, ".", i));
    }
  };
  for (const ColumnConfig& column : ColumnsOf(config)) {
    if (column.kind == ColumnConfig::Kind::kDense) add(column.name, column.width);
  }
  for (const DerivedConfig& derived : config.derived) add(derived.name, derived.width);
  return names;
}

StatusOr<std::unique_ptr<BatchReader>> OpenBatchReader(const DataConfig& config,
                                                       const std::vector<FeatureConfig>& features,
                                                       const std::vector<std::string>& files,
                                                       size_t batch_size,
                                                       const ReadOptions& options) {
  SIMURGH_CHECK(0 < batch_size && batch_size <= kMaxBatchSamples) << batch_size;
  SIMURGH_CHECK_LT(options.share, options.shares);
  SIMURGH_CHECK_LT(0U, options.threads);
  const uint32_t threads = std::ranges::all_of(files, IsReadAhead) ? options.threads : 1;
  return OpenFileReader(
      config, [=] { return ConsumersOf(config, features, threads); }, files,
      [=] { return NewBuilder(config, features); }, batch_size, options);
}

StatusOr<std::unique_ptr<BatchReader>> OpenStreamReader(const DataConfig& config,
                                                        const std::vector<FeatureConfig>& features,
                                                        RecordStream& stream, StreamOffsets begin,
                                                        size_t batch_size,
                                                        const ReadOptions& read) {
  SIMURGH_ASSIGN_OR_RETURN(auto source, NewStreamSource(config, stream, std::move(begin)));
  return NewReaderOf(config, features, std::move(source), batch_size,
                     {.keep_negatives = read.keep_negatives,
                      .seed = read.seed,
                      .bad_rows = read.bad_rows,
                      .on_row = read.on_row});
}

StatusOr<std::unique_ptr<BatchReader>> NewReaderOf(const DataConfig& config,
                                                   const std::vector<FeatureConfig>& features,
                                                   std::unique_ptr<RowSource> source,
                                                   size_t batch_size, const ReadOptions& options) {
  SIMURGH_ASSIGN_OR_RETURN(auto consumers, ConsumersOf(config, features, 1));
  return NewSourceReader(
      config, std::move(source), std::move(consumers), [&] { return NewBuilder(config, features); },
      batch_size, options);
}

}  // namespace simurgh
