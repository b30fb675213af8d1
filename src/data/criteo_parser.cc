#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "data/invalid.h"
#include "data/process/numbers.h"
#include "data/row_parser.h"

namespace simurgh {
namespace {

template <typename Integer>
bool ParseInteger(std::string_view cell, int base, Integer& value) {
  const char* begin = cell.data();
  const char* end = begin + cell.size();
  const auto [stop, error] = std::from_chars(begin, end, value, base);
  return error == std::errc() && stop == end;
}

Status BadCell(std::string_view column, std::string_view cell, std::string_view expected) {
  return Invalid("column '%s': %s is not %s; correct the row", column, Quoted(cell), expected);
}

// Splits a line at tabs.
class TabCells {
 public:
  explicit TabCells(std::string_view line) : rest_(line) {}

  bool Next(std::string_view& cell) {
    if (done_) return false;
    const size_t tab = rest_.find('\t');
    cell = rest_.substr(0, tab);
    done_ = tab == rest_.npos;
    rest_.remove_prefix(done_ ? rest_.size() : tab + 1);
    return true;
  }

 private:
  std::string_view rest_;
  bool done_ = false;
};

class CriteoParser final : public RowParser {
 public:
  CriteoParser(const DataConfig& config, bool ignore_labels, std::unique_ptr<RowConsumer> consumer)
      : ignores_labels_(ignore_labels),
        tasks_(config.criteo.labels),
        columns_(ColumnsOf(config)),
        consumer_(std::move(consumer)) {
    numbers_.reserve(columns_.size());
  }

  Status Parse(std::string_view line, BatchBuilder& builder) override;
  Status ParseCells(std::span<const Cell> cells, std::span<const bool> repeated,
                    BatchBuilder& builder) override;

 private:
  Status AddText(size_t column, std::string_view cell, BatchBuilder& builder);
  Status ParseDense(size_t column, std::string_view cell, BatchBuilder& builder);
  Status WrongCellCount(std::string_view line) const;

  const bool ignores_labels_;
  size_t tasks_;
  std::vector<ColumnConfig> columns_;
  std::unique_ptr<RowConsumer> consumer_;
  RowCells cells_;                   // The current row.
  std::vector<NumberText> numbers_;  // Of the current row; never reallocates.
  std::array<bool, kMaxTasks + kCriteoDenseColumns + kCriteoIdColumns> repeated_{};  // By column.
};

Status CriteoParser::WrongCellCount(std::string_view line) const {
  size_t count = 1;
  for (const char c : line) count += c == '\t' ? 1 : 0;
  return Invalid(
      "%d tab-separated cells, the criteo format has %d: %s, I1 to I13, C1 to C26; correct the row "
      "or `format`",
      count, columns_.size(), tasks_ == 1 ? "label" : absl::StrCat(tasks_, " labels"));
}

Status CriteoParser::Parse(std::string_view line, BatchBuilder& builder) {
  TabCells cells(line);
  std::string_view cell;
  const bool lacks_labels = ignores_labels_ && std::ranges::count(line, '\t') + 1 ==
                                                   kCriteoDenseColumns + kCriteoIdColumns;
  for (size_t task = 0; task < tasks_ && !lacks_labels; ++task) {
    if (!cells.Next(cell)) return WrongCellCount(line);
    if (ignores_labels_) continue;
    if (cell != "0" && cell != "1") {
      // A line without tabs has another format; its label is not the fault.
      if (line.find('\t') == line.npos) return WrongCellCount(line);
      return BadCell(columns_[task].name, cell, "a label, 0 or 1");
    }
    builder.SetLabel(cell == "1" ? 1.0F : 0.0F, task);
  }
  cells_.Clear();
  for (size_t task = 0; task < tasks_; ++task) cells_.EndCell();
  for (size_t column = tasks_; column < columns_.size(); ++column) {
    if (!cells.Next(cell)) return WrongCellCount(line);
    SIMURGH_RETURN_IF_ERROR(AddText(column, cell, builder));
    cells_.EndCell();
  }
  if (cells.Next(cell)) return WrongCellCount(line);
  return consumer_->Consume(cells_, builder);
}

Status CriteoParser::ParseCells(std::span<const Cell> cells, std::span<const bool> repeated,
                                BatchBuilder& builder) {
  cells_.Clear();
  numbers_.clear();
  for (size_t column = 0; column < columns_.size(); ++column) {
    if (column >= tasks_) {
      const Cell& cell = cells[column - tasks_];
      const std::string& name = columns_[column].name;
      switch (cell.kind) {
        case Cell::Kind::kMissing:
          break;
        case Cell::Kind::kText:
          SIMURGH_RETURN_IF_ERROR(AddText(column, cell.text, builder));
          break;
        case Cell::Kind::kNumber:
          SIMURGH_RETURN_IF_ERROR(
              AddText(column, numbers_.emplace_back(cell.number).view(), builder));
          break;
        case Cell::Kind::kList:
          return Invalid("column '%s': it has one value, not a list; correct the row", name);
      }
    }
    cells_.EndCell();
    repeated_[column] = column < tasks_ || (!repeated.empty() && repeated[column - tasks_]);
  }
  if (!repeated.empty()) cells_.SetRepeated(repeated_);
  return consumer_->Consume(cells_, builder);
}

Status CriteoParser::AddText(size_t column, std::string_view cell, BatchBuilder& builder) {
  if (columns_[column].kind == ColumnConfig::Kind::kDense) {
    return ParseDense(column, cell, builder);
  }
  if (cell.empty()) return absl::OkStatus();
  uint64_t id = 0;
  if (!ParseInteger(cell, 16, id)) {
    return BadCell(columns_[column].name, cell, "an id of 1 to 16 hexadecimal digits");
  }
  cells_.Add({.text = cell, .number = id, .is_number = true});
  return absl::OkStatus();
}

Status CriteoParser::ParseDense(size_t column, std::string_view cell, BatchBuilder& builder) {
  if (cell.empty()) return absl::OkStatus();
  int64_t value = 0;
  const ColumnConfig& config = columns_[column];
  if (!ParseInteger(cell, 10, value)) return BadCell(config.name, cell, "an integer of 64 bits");
  const float scaled = Scaled(config, static_cast<double>(value));
  if (!std::isfinite(scaled)) {
    return BadCell(config.name, cell, "small enough for the column's fitted deviation");
  }
  builder.SetDense(column - tasks_, scaled);
  if (consumer_->Reads(column)) cells_.Add({.text = cell});
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<RowParser> NewCriteoParser(const DataConfig& config, bool ignore_labels,
                                           std::unique_ptr<RowConsumer> consumer) {
  return std::make_unique<CriteoParser>(config, ignore_labels, std::move(consumer));
}

}  // namespace simurgh
