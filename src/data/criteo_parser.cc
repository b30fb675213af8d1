#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "data/criteo_layout.h"
#include "data/process/dense_scaling.h"
#include "data/row_parser.h"

namespace simurgh {
namespace {

// Behind the labels.
constexpr size_t kInputColumns = kCriteoDenseColumns + kCriteoIdColumns;

std::string LabelName(size_t index) {
  return index == 0 ? "label" : absl::StrCat("label", index + 1);
}
std::string DenseName(size_t index) { return absl::StrCat("I", index + 1); }
std::string IdName(size_t index) { return absl::StrCat("C", index + 1); }

template <typename Integer>
bool ParseInteger(std::string_view cell, int base, Integer& value) {
  const char* begin = cell.data();
  const char* end = begin + cell.size();
  const auto [stop, error] = std::from_chars(begin, end, value, base);
  return error == std::errc() && stop == end;
}

Status BadCell(std::string_view column, std::string_view cell, std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrFormat("column '%s': %s is not %s; correct the row",
                                                    column, Quoted(cell), expected));
}

// Hands out the tab-separated cells of a line, one by one.
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
  CriteoParser(size_t tasks, const std::vector<ColumnConfig>& dense,
               std::unique_ptr<RowConsumer> sink)
      : tasks_(tasks), dense_(dense), sink_(std::move(sink)) {}

  Status Parse(std::string_view line, BatchBuilder& builder) override;

 private:
  Status ParseDense(size_t index, std::string_view cell, BatchBuilder& builder);
  Status WrongCellCount(std::string_view line) const;

  size_t tasks_;
  std::vector<ColumnConfig> dense_;
  std::unique_ptr<RowConsumer> sink_;
  RowCells parts_;  // Of the present row.
};

Status CriteoParser::WrongCellCount(std::string_view line) const {
  size_t count = 1;
  for (const char c : line) count += c == '\t' ? 1 : 0;
  return absl::InvalidArgumentError(absl::StrFormat(
      "%d tab-separated cells, the criteo format has %d (%s, I1 to I13, C1 to C26); correct the "
      "row or the `format` of the data set",
      count, tasks_ + kInputColumns, tasks_ == 1 ? "label" : absl::StrCat(tasks_, " labels")));
}

Status CriteoParser::Parse(std::string_view line, BatchBuilder& builder) {
  TabCells cells(line);
  std::string_view cell;
  for (size_t task = 0; task < tasks_; ++task) {
    if (!cells.Next(cell)) return WrongCellCount(line);
    if (cell != "0" && cell != "1") {
      // A line without its cells is no Criteo line at all; say that rather than blame the label.
      if (line.find('\t') == line.npos) return WrongCellCount(line);
      return BadCell(LabelName(task), cell, "a label, 0 or 1");
    }
    builder.SetLabel(cell == "1" ? 1.0F : 0.0F, task);
  }
  parts_.Clear();
  for (size_t index = 0; index < kCriteoDenseColumns; ++index) {
    if (!cells.Next(cell)) return WrongCellCount(line);
    SIMURGH_RETURN_IF_ERROR(ParseDense(index, cell, builder));
    parts_.EndCell();
  }
  for (size_t index = 0; index < kCriteoIdColumns; ++index) {
    if (!cells.Next(cell)) return WrongCellCount(line);
    uint64_t id = 0;
    if (!cell.empty() && !ParseInteger(cell, 16, id)) {
      return BadCell(IdName(index), cell, "an id of 1 to 16 hexadecimal digits");
    }
    if (!cell.empty()) parts_.Add({.text = cell, .number = id, .is_number = true});
    parts_.EndCell();
  }
  if (cells.Next(cell)) return WrongCellCount(line);
  return sink_->Consume(parts_, builder);
}

Status CriteoParser::ParseDense(size_t index, std::string_view cell, BatchBuilder& builder) {
  if (cell.empty()) return absl::OkStatus();
  int64_t value = 0;
  if (!ParseInteger(cell, 10, value)) {
    return BadCell(DenseName(index), cell, "an integer of 64 bits");
  }
  const float scaled = Scaled(dense_[index], static_cast<double>(value));
  if (!std::isfinite(scaled)) {
    return BadCell(DenseName(index), cell, "small enough for the column's fitted deviation");
  }
  builder.SetDense(index, scaled);
  if (sink_->Reads(index)) parts_.Add({.text = cell});
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> CriteoLabelColumns(const CriteoConfig& config) {
  std::vector<std::string> names;
  for (size_t task = 0; task < config.labels; ++task) names.push_back(LabelName(task));
  return names;
}

std::vector<std::string> CriteoDenseColumns() {
  std::vector<std::string> names;
  names.reserve(kCriteoDenseColumns);
  for (size_t index = 0; index < kCriteoDenseColumns; ++index) names.push_back(DenseName(index));
  return names;
}

std::vector<ColumnConfig> CriteoDense(const CriteoConfig& config) {
  std::vector<ColumnConfig> columns(kCriteoDenseColumns);
  for (size_t index = 0; index < columns.size(); ++index) {
    columns[index].name = DenseName(index);
    columns[index].kind = ColumnConfig::Kind::kDense;
    columns[index].transform = ColumnConfig::Transform::kLog1p;
    if (!config.mean.empty()) columns[index].mean = config.mean[index];
    if (!config.stddev.empty()) columns[index].stddev = config.stddev[index];
  }
  return columns;
}

StatusOr<std::unique_ptr<RowParser>> NewCriteoParser(const CriteoConfig& config,
                                                     const ConsumerFactory& new_sink) {
  std::vector<std::string> names = CriteoDenseColumns();
  for (size_t index = 0; index < kCriteoIdColumns; ++index) names.push_back(IdName(index));
  SIMURGH_ASSIGN_OR_RETURN(std::unique_ptr<RowConsumer> sink, new_sink(names));
  return std::make_unique<CriteoParser>(config.labels, CriteoDense(config), std::move(sink));
}

}  // namespace simurgh
