#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"

#include "data/csv_cells.h"
#include "data/process/dense_scaling.h"
#include "data/process/numbers.h"
#include "data/row_parser.h"

namespace simurgh {
namespace {

// A column and what becomes of its cells.
struct Column {
  ColumnConfig config;
  size_t dense_index = 0;  // Among the dense columns.
  size_t task = 0;         // Among the labels.
  bool is_read = false;    // By the sink.
};

Status BadCell(const ColumnConfig& column, std::string_view cell, std::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrFormat("column '%s': %s %s", column.name, Quoted(cell), problem));
}

class CsvParser final : public RowParser {
 public:
  CsvParser(const CsvConfig& config, std::vector<Column> columns, std::unique_ptr<RowConsumer> sink)
      : missing_values_(config.missing_values),
        columns_(std::move(columns)),
        sink_(std::move(sink)),
        splitter_(config.separator) {}

  Status Parse(std::string_view line, BatchBuilder& builder) override;

 private:
  bool IsMissing(std::string_view cell) const {
    return std::find(missing_values_.begin(), missing_values_.end(), cell) != missing_values_.end();
  }

  static Status ParseLabel(const Column& column, std::string_view cell, BatchBuilder& builder);
  Status ParseDense(const Column& column, std::string_view cell, BatchBuilder& builder) const;
  void AddParts(const ColumnConfig& column, std::string_view cell);

  std::vector<std::string> missing_values_;
  std::vector<Column> columns_;
  std::unique_ptr<RowConsumer> sink_;
  CsvSplitter splitter_;
  RowCells parts_;  // Of the present row.
};

Status CsvParser::Parse(std::string_view line, BatchBuilder& builder) {
  SIMURGH_ASSIGN_OR_RETURN(const auto* cells, splitter_.Split(line));
  if (cells->size() != columns_.size()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d cells, but the configuration names %d columns; correct the row, or `columns` and "
        "`separator` of the data set",
        cells->size(), columns_.size()));
  }
  parts_.Clear();
  for (size_t c = 0; c < columns_.size(); ++c) {
    const Column& column = columns_[c];
    const std::string_view cell = (*cells)[c];
    switch (column.config.kind) {
      case ColumnConfig::Kind::kLabel:
        SIMURGH_RETURN_IF_ERROR(ParseLabel(column, cell, builder));
        break;
      case ColumnConfig::Kind::kDense:
        SIMURGH_RETURN_IF_ERROR(ParseDense(column, cell, builder));
        break;
      case ColumnConfig::Kind::kId:
      case ColumnConfig::Kind::kSkip:
        break;
    }
    if (column.is_read) AddParts(column.config, cell);
    parts_.EndCell();
  }
  return sink_->Consume(parts_, builder);
}

Status CsvParser::ParseLabel(const Column& column, std::string_view cell, BatchBuilder& builder) {
  const std::vector<std::string>& positive = column.config.positive;
  if (!positive.empty()) {
    const bool is_positive = std::find(positive.begin(), positive.end(), cell) != positive.end();
    builder.SetLabel(is_positive ? 1.0F : 0.0F, column.task);
    return absl::OkStatus();
  }
  const std::optional<double> value = ParseNumberCell(cell);
  if (!value || (*value != 0.0 && *value != 1.0)) {
    return BadCell(
        column.config, cell,
        "is not a label, 0 or 1; correct it, or list the texts that mean 1 as `positive`");
  }
  builder.SetLabel(static_cast<float>(*value), column.task);
  return absl::OkStatus();
}

Status CsvParser::ParseDense(const Column& column, std::string_view cell,
                             BatchBuilder& builder) const {
  const ColumnConfig& config = column.config;
  double value = config.missing;
  const bool is_missing = IsMissing(cell);
  if (!is_missing) {
    const std::optional<double> number = ParseNumberCell(cell);
    if (!number) {
      return BadCell(config, cell,
                     "is not a finite number; correct it, or add it to `missing_values`");
    }
    value = *number;
  }
  const float scaled = Scaled(config, value);
  if (!std::isfinite(scaled) && is_missing) {
    return absl::InvalidArgumentError(
        absl::StrFormat("column '%s': `missing`, %g, is too large after (x - mean) / stddev; "
                        "correct it, or `mean` and `stddev`",
                        config.name, config.missing));
  }
  if (!std::isfinite(scaled)) {
    return BadCell(config, cell,
                   "is too large after (x - mean) / stddev; correct it, or `mean` and `stddev`");
  }
  builder.SetDense(column.dense_index, scaled);
  return absl::OkStatus();
}

void CsvParser::AddParts(const ColumnConfig& column, std::string_view cell) {
  const char separator = column.separator;
  const auto add = [&](std::string_view part) {
    if (!IsMissing(part)) parts_.Add({.text = part});
  };
  if (separator == '\0' || IsMissing(cell)) {
    add(cell);
    return;
  }
  for (;;) {
    const size_t end = cell.find(separator);
    add(TrimBlanks(cell.substr(0, end), separator));
    if (end == cell.npos) return;
    cell.remove_prefix(end + 1);
  }
}

Status CheckColumns(const std::vector<ColumnConfig>& columns) {
  std::set<std::string> names;
  for (const ColumnConfig& column : columns) {
    if (!names.insert(column.name).second) {
      return absl::InvalidArgumentError(
          absl::StrFormat("csv: two columns are named '%s'; give each its own name", column.name));
    }
    if (column.kind == ColumnConfig::Kind::kDense && !(column.stddev > 0.0)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "csv: column '%s': stddev is %g, must be above 0", column.name, column.stddev));
    }
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<RowParser>> NewCsvParser(const CsvConfig& config,
                                                  const ConsumerFactory& new_sink) {
  SIMURGH_RETURN_IF_ERROR(CheckColumns(config.columns));
  std::vector<std::string> names;
  names.reserve(config.columns.size());
  for (const ColumnConfig& column : config.columns) names.push_back(column.name);
  SIMURGH_ASSIGN_OR_RETURN(std::unique_ptr<RowConsumer> sink, new_sink(names));
  std::vector<Column> columns;
  size_t dense_width = 0;
  size_t tasks = 0;
  for (size_t c = 0; c < config.columns.size(); ++c) {
    const ColumnConfig& column = config.columns[c];
    const bool is_dense = column.kind == ColumnConfig::Kind::kDense;
    if (sink->Reads(c) && !is_dense && column.kind != ColumnConfig::Kind::kId) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s reads column '%s', which is %s; make it an id column", sink->ReaderOf(c), column.name,
          column.kind == ColumnConfig::Kind::kLabel ? "a label" : "skipped"));
    }
    columns.push_back(
        {.config = column, .dense_index = dense_width, .task = tasks, .is_read = sink->Reads(c)});
    if (is_dense) ++dense_width;
    if (column.kind == ColumnConfig::Kind::kLabel) ++tasks;
  }
  return std::make_unique<CsvParser>(config, std::move(columns), std::move(sink));
}

}  // namespace simurgh
