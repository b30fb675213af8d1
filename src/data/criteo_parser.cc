#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "data/invalid.h"
#include "data/process/dense_scaling.h"
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
        consumer_(std::move(consumer)) {}

  Status Parse(std::string_view line, BatchBuilder& builder) override;

 private:
  Status ParseDense(size_t column, std::string_view cell, BatchBuilder& builder);
  Status WrongCellCount(std::string_view line) const;

  const bool ignores_labels_;
  size_t tasks_;
  std::vector<ColumnConfig> columns_;
  std::unique_ptr<RowConsumer> consumer_;
  RowCells cells_;  // The current row.
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
    uint64_t id = 0;
    if (columns_[column].kind == ColumnConfig::Kind::kDense) {
      SIMURGH_RETURN_IF_ERROR(ParseDense(column, cell, builder));
    } else if (!cell.empty()) {
      if (!ParseInteger(cell, 16, id)) {
        return BadCell(columns_[column].name, cell, "an id of 1 to 16 hexadecimal digits");
      }
      cells_.Add({.text = cell, .number = id, .is_number = true});
    }
    cells_.EndCell();
  }
  if (cells.Next(cell)) return WrongCellCount(line);
  return consumer_->Consume(cells_, builder);
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
