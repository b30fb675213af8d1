#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"

#include "base/hash.h"
#include "base/invalid.h"
#include "base/text.h"
#include "data/processing/numbers.h"
#include "data/processing/times.h"
#include "data/reading/csv_cells.h"
#include "data/reading/row_parser.h"

namespace simurgh {

bool TakeBrackets(std::string_view& cell, char separator) {
  if ((separator != ',' && separator != ' ') || cell.size() < 2) return false;
  const char close = cell.front() == '[' ? ']' : cell.front() == '(' ? ')' : '}';
  if (cell.front() != '[' && cell.front() != '(' && cell.front() != '{') return false;
  if (cell.back() != close) return false;
  cell = cell.substr(1, cell.size() - 2);
  cell.remove_prefix(std::min(cell.find_first_not_of(" \t\r\n"), cell.size()));
  return true;
}

std::string_view TakeBracketed(std::string_view& rest, char separator) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const char quote = rest.front();
  std::string_view value;
  if (quote == '"' || quote == '\'') {
    rest.remove_prefix(1);
    size_t end = 0;
    while (end < rest.size() && rest[end] != quote) end += rest[end] == '\\' ? 2 : 1;
    value = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
    if (separator != ' ' && rest.starts_with(separator)) rest.remove_prefix(1);
  } else {
    const size_t end = separator == ' ' ? rest.find_first_of(kBlanks) : rest.find(separator);
    value = TrimBlanks(rest.substr(0, end), '\0');
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
  return value;
}

Status CheckLength(size_t cells, size_t columns) {
  if (cells == columns) return absl::OkStatus();
  return Invalid(
      "%d %s, but the header has %d columns; correct the row, or quote cells that contain "
      "separators",
      cells, cells == 1 ? "cell" : "cells", columns);
}

bool QuoteScan::IsOpen(std::string_view more) {
  for (const char c : more) {
    if (state_ == State::kQuoted) {
      // Two quotes mean one: the first ends the cell and the second opens it again.
      if (c == '"') state_ = State::kClosed;
    } else if (c == '"' && state_ != State::kText) {
      state_ = State::kQuoted;
    } else if (c == separator_) {
      state_ = State::kCellStart;
    } else if (state_ == State::kClosed || (c != ' ' && c != '\t')) {
      state_ = State::kText;
    }
  }
  return state_ == State::kQuoted;
}

StatusOr<std::string_view> CsvSplitter::TakeQuoted(std::string_view& rest) {
  rest.remove_prefix(1);
  size_t close = rest.find('"');
  if (close != rest.npos && !rest.substr(close + 1).starts_with('"')) {  // The common case.
    const std::string_view cell = rest.substr(0, close);
    rest.remove_prefix(close + 1);
    return cell;
  }
  const size_t first = unescaped_.size();
  for (;;) {
    close = rest.find('"');
    if (close == rest.npos) {
      return Invalid("cell %d: the quote is not closed; close it, or double a quote that is text",
                     cells_.size() + 1);
    }
    unescaped_.append(rest.substr(0, close));
    rest.remove_prefix(close + 1);
    if (!rest.starts_with('"')) return std::string_view(unescaped_).substr(first);
    unescaped_.push_back('"');
    rest.remove_prefix(1);
  }
}

StatusOr<const std::vector<std::string_view>*> CsvSplitter::Split(std::string_view line) {
  cells_.clear();
  unescaped_.clear();
  std::string_view rest = line;
  for (;;) {
    const size_t start = rest.find_first_not_of(" \t");
    if (start != rest.npos && rest[start] == '"' &&
        rest.substr(0, start).find(separator_) == rest.npos) {
      if (unescaped_.capacity() < line.size()) unescaped_.reserve(line.size());
      rest.remove_prefix(start);
      SIMURGH_ASSIGN_OR_RETURN(std::string_view cell, TakeQuoted(rest));
      if (!keeps_blanks_ && cell.find_first_not_of(" \t") == cell.npos) cell = {};
      cells_.push_back(cell);
      const std::string_view behind = TrimBlanks(rest.substr(0, rest.find(separator_)), separator_);
      if (!behind.empty()) {
        return Invalid("cell %d: text after the closing quote; double a quote that is text",
                       cells_.size());
      }
    } else {
      const std::string_view cell = rest.substr(0, rest.find(separator_));
      cells_.push_back(keeps_blanks_ ? cell : TrimBlanks(cell, separator_));
    }
    const size_t end = rest.find(separator_);
    if (end == rest.npos) return &cells_;
    rest.remove_prefix(end + 1);
  }
}

namespace {

// Larger dense values get a warning. One of 1e20 among small ones leaves the running variance of
// batch_norm too large for hundreds of steps, so that evaluations ignore the layer's input.
constexpr float kLargeDense = 1e6F;

struct Column {
  ColumnConfig config;
  size_t index;  // Index of its first value among those of the columns of its kind.
  bool is_read;  // The consumer reads it.
};

// Returns an id of a list. Blanks around a separator in a text are not part of it.
std::string_view IdOf(std::string_view text, char separator) {
  const bool is_exact = separator == '\0' || separator == kListSeparator;
  return is_exact ? text : TrimBlanks(text, separator);
}

Status BadCell(const ColumnConfig& column, std::string_view cell, std::string_view problem) {
  return Invalid("column '%s': %s %s", column.name, Quoted(cell), problem);
}

class CsvParser final : public RowParser {
 public:
  CsvParser(const DataConfig& config, bool ignore_labels, std::unique_ptr<RowConsumer> consumer)
      : ignores_labels_(ignore_labels),
        is_csv_(config.format == DataConfig::Format::kCsv),
        missing_values_(config.missing_values),
        consumer_(std::move(consumer)),
        splitter_(config.csv.separator),
        configured_(ColumnsInOrder(ColumnsOf(config), /*with_labels=*/true)),
        unlabelled_(ColumnsInOrder(ColumnsOf(config), /*with_labels=*/!ignore_labels)) {
    std::map<ColumnConfig::Kind, size_t> count;
    for (const ColumnConfig& column : ColumnsOf(config)) {
      size_t& index = count[column.kind];
      columns_.push_back({column, index, consumer_->Reads(columns_.size())});
      index += column.width;
    }
    labels_ = count[ColumnConfig::Kind::kLabel];
    repeated_ = std::make_unique<bool[]>(columns_.size());
    size_t cell = 0;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const ColumnConfig::Kind kind = columns_[c].config.kind;
      if (IsTarget(kind) && ignore_labels) continue;
      if (IsTarget(kind) || kind == ColumnConfig::Kind::kDense) set_.emplace_back(c, cell);
      ++cell;
    }
    reads_nothing_ = std::ranges::none_of(columns_, &Column::is_read);
    numbers_.reserve(columns_.size());
  }

  Status Parse(std::string_view line, const FileColumns* columns, BatchBuilder& builder) override;
  Status ParseCells(std::span<const Cell* const> cells, std::span<const bool> repeated,
                    BatchBuilder& builder) override;

 private:
  bool IsMissing(std::string_view cell) const {
    return std::find(missing_values_.begin(), missing_values_.end(), cell) != missing_values_.end();
  }

  // Parses the cell of a label, weight or group.
  Status ParseTarget(const Column& column, std::string_view cell, BatchBuilder& builder);
  Status ParseLabel(const Column& column, std::string_view cell, BatchBuilder& builder);
  // Sets an unknown label, of which a sample of several tasks can have some.
  void SetUnknown(const Column& column, BatchBuilder& builder) {
    builder.SetLabel(std::numeric_limits<float>::quiet_NaN(), column.index);
    ++unknown_labels_;
  }
  // Returns INVALID_ARGUMENT if the row has no label.
  Status CheckLabels() const;
  static Status ParseWeight(const Column& column, std::string_view cell, BatchBuilder& builder);
  Status ParseDense(const Column& column, std::string_view cell, BatchBuilder& builder);
  // Returns whether the cell of a column of numbers is missing; a dense "nan" is.
  bool IsNoNumber(const ColumnConfig& column, std::string_view cell) const {
    if (IsMissing(cell)) return true;
    return column.kind == ColumnConfig::Kind::kDense && cell.size() == 3 &&
           absl::EqualsIgnoreCase({cell.data(), cell.size()}, "nan");
  }
  // Sets the number at `place` of the column. number: none for a missing cell.
  Status SetDense(const Column& column, std::optional<double> number, std::string_view cell,
                  BatchBuilder& builder, size_t place = 0);
  // Sets all numbers of a column with a width above 1. list: its values; null: `cell` has them.
  Status ParseVector(const Column& column, std::string_view cell,
                     const std::span<const std::string_view>* list, BatchBuilder& builder);
  Status SetMissing(const Column& column, BatchBuilder& builder);
  Status AddCell(const Column& column, const Cell& cell, BatchBuilder& builder);
  void WarnOfOutlier(const ColumnConfig& column, std::string_view cell, float scaled);
  void AddTokens(const ColumnConfig& column, std::string_view cell);
  // Adds a value in the form for features, unless it is missing.
  void AddToken(const ColumnConfig& column, std::string_view text);

  const bool ignores_labels_;
  const bool is_csv_;
  std::vector<std::string> missing_values_;
  std::vector<Column> columns_;
  std::unique_ptr<RowConsumer> consumer_;
  bool reads_nothing_ = false;                  // The consumer reads no column.
  size_t labels_ = 0;                           // Number of label columns.
  size_t unknown_labels_ = 0;                   // Number in the current row.
  std::vector<std::pair<size_t, size_t>> set_;  // Columns that need no consumer, and their cells.
  CsvSplitter splitter_;
  const FileColumns configured_;
  const FileColumns unlabelled_;      // Columns of rows that lack labels, if these are ignored.
  RowCells cells_;                    // Cells of the current row.
  bool is_whole_ = false;             // ParseCells() parsed the current row without an error.
  std::unique_ptr<bool[]> repeated_;  // Whether a column's cell equals that of the row before.
  std::vector<NumberText> numbers_;   // Numbers of the current row; never reallocates.
};

Status CsvParser::Parse(std::string_view line, const FileColumns* columns, BatchBuilder& builder) {
  SIMURGH_ASSIGN_OR_RETURN(const auto* cells, splitter_.Split(line));
  if (columns != nullptr) SIMURGH_RETURN_IF_ERROR(CheckLength(cells->size(), columns->width));
  if (columns == nullptr) {
    columns = cells->size() == unlabelled_.width ? &unlabelled_ : &configured_;
  }
  if (cells->size() != columns->width) {
    return Invalid(
        "%d %s, but the configuration names %d columns; correct the row, data.columns or "
        "data.csv.separator",
        cells->size(), cells->size() == 1 ? "cell" : "cells", columns_.size());
  }
  cells_.Begin(/*is_whole=*/std::exchange(is_whole_, false));
  warning_.clear();
  numbers_.clear();
  unknown_labels_ = 0;
  auto place = columns->cells.begin();
  for (const Column& column : columns_) {
    const size_t index = *place++;
    if (index == FileColumns::kAbsent) {
      if (column.config.may_lack && column.config.kind == ColumnConfig::Kind::kDense) {
        SIMURGH_RETURN_IF_ERROR(SetMissing(column, builder));
      }
      cells_.EndCell();
      continue;
    }
    const std::string_view cell = (*cells)[index];
    switch (column.config.kind) {
      case ColumnConfig::Kind::kLabel:
      case ColumnConfig::Kind::kWeight:
      case ColumnConfig::Kind::kGroup:
        if (!ignores_labels_) SIMURGH_RETURN_IF_ERROR(ParseTarget(column, cell, builder));
        break;
      case ColumnConfig::Kind::kDense:
        SIMURGH_RETURN_IF_ERROR(ParseDense(column, cell, builder));
        break;
      case ColumnConfig::Kind::kId:
      case ColumnConfig::Kind::kSkip:
        break;
    }
    if (column.is_read) AddTokens(column.config, cell);
    cells_.EndCell();
  }
  SIMURGH_RETURN_IF_ERROR(CheckLabels());
  return consumer_->Consume(cells_, builder);
}

Status CsvParser::CheckLabels() const {
  if (unknown_labels_ == 0 || unknown_labels_ < labels_) return absl::OkStatus();
  return absl::InvalidArgumentError("all labels are missing; correct one, or remove the row");
}

Status CsvParser::ParseTarget(const Column& column, std::string_view cell, BatchBuilder& builder) {
  switch (column.config.kind) {
    case ColumnConfig::Kind::kWeight:
      return ParseWeight(column, cell, builder);
    case ColumnConfig::Kind::kGroup:
      if (!IsMissing(cell)) builder.SetGroup(HashBytes(cell));
      return absl::OkStatus();
    default:
      return ParseLabel(column, cell, builder);
  }
}

Status CsvParser::ParseLabel(const Column& column, std::string_view cell, BatchBuilder& builder) {
  const ColumnConfig& config = column.config;
  const std::optional<bool> listed = IsPositive(cell, config);
  if (labels_ > 1 && IsMissing(cell) && !listed) {
    SetUnknown(column, builder);
    return absl::OkStatus();
  }
  if (!config.positive.empty()) {
    if (!listed) {
      if (cell.empty() || IsMissing(cell)) {
        return BadCell(config, cell,
                       "is a missing label; correct it, or list the text as `negative`");
      }
      if (!config.negative.empty()) {
        return BadCell(config, cell,
                       "is neither in `positive` nor in `negative`; correct it, or list it in one");
      }
    }
    builder.SetLabel(listed.value_or(false) ? 1.0F : 0.0F, column.index);
    return absl::OkStatus();
  }
  const std::optional<double> value = ParseNumberCell(cell, config.numbers);
  if (config.label_values != ColumnConfig::LabelValues::kBinary) {
    const bool is_count = config.label_values == ColumnConfig::LabelValues::kCounts;
    if (!value || !std::isfinite(static_cast<float>(*value)) || (is_count && *value < 0)) {
      return BadCell(config, cell,
                     is_count
                         ? "is not a number of at least 0, as the loss poisson needs; correct it"
                         : "is not a finite number; correct it, or set the loss to bce");
    }
    builder.SetLabel(static_cast<float>(*value), column.index);
    return absl::OkStatus();
  }
  if (!value || (*value != 0.0 && *value != 1.0)) {
    return BadCell(
        column.config, cell,
        "is not a label, 0 or 1; correct it, list the texts of 1 as `positive`, or choose the loss "
        "squared_error");
  }
  builder.SetLabel(static_cast<float>(*value), column.index);
  return absl::OkStatus();
}

Status CsvParser::ParseWeight(const Column& column, std::string_view cell, BatchBuilder& builder) {
  const std::optional<double> value = ParseNumberCell(cell, column.config.numbers);
  const auto weight = static_cast<float>(value.value_or(-1));
  if (!std::isfinite(weight) || weight < 0) {
    return BadCell(column.config, cell,
                   "is not a weight, a finite number of at least 0; correct it");
  }
  builder.SetWeight(weight);
  return absl::OkStatus();
}

Status CsvParser::ParseDense(const Column& column, std::string_view cell, BatchBuilder& builder) {
  const ColumnConfig& config = column.config;
  if (IsNoNumber(config, cell)) return SetMissing(column, builder);
  if (config.width > 1) return ParseVector(column, cell, nullptr, builder);
  const std::optional<double> number = ParseCell(config, cell);
  if (!number) {
    return BadCell(config, cell,
                   config.date
                       ? "is not a date, such as 2024-01-31 10:20, nor a Unix time; correct it, or "
                         "add it to data.missing_values"
                       : "is not a finite number; correct it, or add it to data.missing_values");
  }
  return SetDense(column, number, cell, builder);
}

Status CsvParser::ParseVector(const Column& column, std::string_view cell,
                              const std::span<const std::string_view>* list,
                              BatchBuilder& builder) {
  const ColumnConfig& config = column.config;
  size_t count = 0;
  Status status;
  const auto add = [&](std::string_view value) {
    if (!status.ok() || (config.separator == ' ' && value.empty())) return;
    const std::optional<double> number = ParseNumberCell(value, config.numbers);
    if (!number) {
      status = BadCell(config, value, "is not a finite number; correct it");
    } else if (count < config.width) {
      status = SetDense(column, number, value, builder, count);
    }
    ++count;
  };
  if (list == nullptr) {
    ForEachValue(cell, config.separator, add);
  } else {
    for (const std::string_view value : *list) add(value);
  }
  if (!status.ok() || count == config.width) return status;
  return BadCell(config, cell,
                 absl::StrFormat("has %d numbers, not the %d of its width; correct one of them",
                                 count, config.width));
}

Status CsvParser::SetMissing(const Column& column, BatchBuilder& builder) {
  for (size_t place = 0; place < column.config.width; ++place) {
    SIMURGH_RETURN_IF_ERROR(SetDense(column, std::nullopt, "", builder, place));
  }
  return absl::OkStatus();
}

Status CsvParser::SetDense(const Column& column, std::optional<double> number,
                           std::string_view cell, BatchBuilder& builder, size_t place) {
  const ColumnConfig& config = column.config;
  const bool is_missing = !number.has_value();
  const float scaled = Scaled(config, number.value_or(config.missing));
  if (!std::isfinite(scaled) && is_missing) {
    return Invalid(
        "column '%s': `missing`, %g, is too large after (x - mean) / stddev; "
        "correct it, or `mean` and `stddev`",
        config.name, config.missing);
  }
  if (!std::isfinite(scaled)) {
    return BadCell(config, cell,
                   "is too large after (x - mean) / stddev; correct it, or `mean` and `stddev`");
  }
  if (std::abs(scaled) > kLargeDense) WarnOfOutlier(config, cell, scaled);
  builder.SetDense(column.index + place, scaled);
  return absl::OkStatus();
}

Status CsvParser::ParseCells(std::span<const Cell* const> cells, std::span<const bool> repeated,
                             BatchBuilder& builder) {
  cells_.Begin(/*is_whole=*/std::exchange(is_whole_, false));
  warning_.clear();
  numbers_.clear();
  unknown_labels_ = 0;
  if (reads_nothing_ && repeated.empty()) {
    for (const auto [column, cell] : set_) {
      SIMURGH_RETURN_IF_ERROR(AddCell(columns_[column], *cells[cell], builder));
    }
    return CheckLabels();
  }
  size_t column_number = 0;
  size_t next = 0;
  for (const Column& column : columns_) {
    bool is_repeated = true;
    if (!IsTarget(column.config.kind) || !ignores_labels_) {
      const bool is_dense = column.config.kind == ColumnConfig::Kind::kDense;
      is_repeated = !repeated.empty() && repeated[next];
      // The text of a number belongs to the current row, so it cannot be repeated.
      if (!is_repeated || (is_dense && column.is_read)) {
        SIMURGH_RETURN_IF_ERROR(AddCell(column, *cells[next], builder));
      } else {
        cells_.Repeat();
        for (size_t i = 0; is_dense && i < column.config.width; ++i) {
          builder.RepeatDense(column.index + i);
        }
      }
      ++next;
    }
    cells_.EndCell();
    repeated_[column_number++] = is_repeated;
  }
  if (!repeated.empty()) cells_.SetRepeated({repeated_.get(), columns_.size()});
  SIMURGH_RETURN_IF_ERROR(CheckLabels());
  SIMURGH_RETURN_IF_ERROR(consumer_->Consume(cells_, builder));
  is_whole_ = true;
  return absl::OkStatus();
}

Status CsvParser::AddCell(const Column& column, const Cell& cell, BatchBuilder& builder) {
  const ColumnConfig& config = column.config;
  if (IsTarget(config.kind)) {
    if (cell.kind == Cell::Kind::kList) {
      return Invalid("column '%s': it has one value, not a list; correct the row", config.name);
    }
    if (cell.kind == Cell::Kind::kNumber) {
      const bool is_binary = config.kind == ColumnConfig::Kind::kLabel && config.positive.empty() &&
                             (cell.number == 0.0 || cell.number == 1.0);
      if (is_binary) {  // 0 and 1 are valid labels with any loss.
        builder.SetLabel(static_cast<float>(cell.number), column.index);
        return absl::OkStatus();
      }
      const NumberText text(cell.number);
      if (!IsConverted(config)) return ParseTarget(column, text.view(), builder);
      Column plain = column;  // The number is not in the format of the column's texts.
      plain.config.numbers = {};
      return ParseTarget(plain, text.view(), builder);
    }
    const bool is_missing = cell.kind == Cell::Kind::kMissing;
    if (is_missing && config.kind == ColumnConfig::Kind::kLabel && labels_ > 1) {
      SetUnknown(column, builder);
      return absl::OkStatus();
    }
    return ParseTarget(column, is_missing ? "" : cell.text, builder);
  }
  if (config.kind == ColumnConfig::Kind::kDense) {
    switch (cell.kind) {
      case Cell::Kind::kMissing:
        return SetMissing(column, builder);
      case Cell::Kind::kText:
        SIMURGH_RETURN_IF_ERROR(ParseDense(column, cell.text, builder));
        if (column.is_read) AddTokens(config, cell.text);
        return absl::OkStatus();
      case Cell::Kind::kNumber: {
        if (config.width > 1) {
          return Invalid("column '%s': it has %d numbers, not one; correct the row", config.name,
                         config.width);
        }
        if (std::isnan(cell.number)) return SetMissing(column, builder);
        const double value = config.date ? EpochDays(cell.number) : cell.number;
        const float scaled = Scaled(config, value);
        if (!column.is_read && std::abs(scaled) <= kLargeDense) {  // The number needs no text.
          builder.SetDense(column.index, scaled);
          return absl::OkStatus();
        }
        const NumberText& text = numbers_.emplace_back(value);
        if (!std::isfinite(value)) {
          return BadCell(config, text.view(), "is not a finite number; correct it");
        }
        if (column.is_read) cells_.Add({.text = text.view()});
        return SetDense(column, value, text.view(), builder);
      }
      case Cell::Kind::kList:
        if (config.width > 1) return ParseVector(column, "", &cell.list, builder);
        return Invalid("column '%s': it has one number, not a list; correct the row", config.name);
    }
  }
  if (!column.is_read) return absl::OkStatus();
  switch (cell.kind) {
    case Cell::Kind::kMissing:
      break;
    case Cell::Kind::kText:
      AddTokens(config, cell.text);
      break;
    case Cell::Kind::kNumber:
      return Invalid("column '%s': it has ids, not dense numbers; send texts or integers",
                     config.name);
    case Cell::Kind::kList:
      if (is_csv_ && config.separator == '\0') {
        return Invalid("column '%s': it has one id, not a list; correct the row", config.name);
      }
      for (size_t i = 0; i < cell.list.size(); ++i) {
        const std::string_view id = IdOf(cell.list[i], config.separator);
        if (cell.weights.empty()) {
          AddToken(config, id);
        } else if (!IsMissing(id)) {
          cells_.Add({.text = id, .has_weight = true, .weight = cell.weights[i]});
        }
      }
      break;
  }
  return absl::OkStatus();
}

void CsvParser::WarnOfOutlier(const ColumnConfig& column, std::string_view cell, float scaled) {
  warning_ = absl::StrFormat(
      "column '%s': %s is %g after scaling; numbers above %g spoil gradients and batch_norm; "
      "correct it, or set `fit` or `transform: log1p`",
      column.name, Quoted(cell), scaled, kLargeDense);
}

void CsvParser::AddTokens(const ColumnConfig& column, std::string_view cell) {
  const char separator = column.separator;
  if (separator == '\0' || IsMissing(cell)) {
    AddToken(column, cell);
    return;
  }
  ForEachValue(cell, separator, [&](std::string_view value) { AddToken(column, value); });
}

void CsvParser::AddToken(const ColumnConfig& column, std::string_view text) {
  if (IsNoNumber(column, text)) return;
  if (column.integers) {
    const std::optional<std::string_view> id = IntegerText(text);
    if (!id) return;
    text = *id;
  } else if (IsConverted(column)) {
    if (const auto number = ParseCell(column, text)) {
      text = numbers_.emplace_back(*number).view();
    }
  }
  cells_.Add({.text = text});
}

}  // namespace

std::unique_ptr<RowParser> NewCsvParser(const DataConfig& config, bool ignore_labels,
                                        std::unique_ptr<RowConsumer> consumer) {
  return std::make_unique<CsvParser>(config, ignore_labels, std::move(consumer));
}

}  // namespace simurgh
