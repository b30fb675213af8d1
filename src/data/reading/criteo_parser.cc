#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/invalid.h"
#include "base/text.h"
#include "data/processing/numbers.h"
#include "data/reading/row_parser.h"

namespace simurgh {
namespace {

template <typename Integer>
bool ParseInteger(std::string_view cell, int base, Integer& value) {
  const char* begin = cell.data();
  const char* end = begin + cell.size();
  const auto [stop, error] = std::from_chars(begin, end, value, base);
  return error == std::errc() && stop == end;
}

static_assert(std::endian::native == std::endian::little, "the first digit is the lowest byte");

// Returns the value of 8 hexadecimal digits, or nothing. Converts all at once: one after another,
// each would wait for the one before it. Letters are 0x40 + 1 to 6, or 0x60 + 1 to 6.
std::optional<uint64_t> EightDigits(const char* text) {
  constexpr uint64_t kOnes = 0x0101'0101'0101'0101;
  uint64_t digits = 0;
  std::memcpy(&digits, text, sizeof(digits));
  const uint64_t letters = digits >> 6 & kOnes;
  const uint64_t values = (digits & 0x0f * kOnes) + 9 * letters;
  // Digits have 0x3 above their value; letters 0x6 or 0x4.
  const uint64_t wrong_class =
      ((digits | letters << 5) & 0xf0 * kOnes) ^ (0x30 * kOnes + 0x30 * letters);
  // Digits are below 10, letters from 10 to 15.
  const uint64_t wrong_value =
      (values & 0x10 * kOnes) | (((values + 6 * kOnes) & 0x10 * kOnes) ^ letters << 4);
  if ((wrong_class | wrong_value) != 0) return std::nullopt;
  uint64_t packed = __builtin_bswap64(values);
  packed = (packed | packed >> 4) & 0x00ff'00ff'00ff'00ff;
  packed = (packed | packed >> 8) & 0x0000'ffff'0000'ffff;
  return (packed | packed >> 16) & 0xffff'ffff;
}

Status BadCell(std::string_view column, std::string_view cell, std::string_view expected) {
  return Invalid("column '%s': %s is not %s; correct the row", column, Quoted(cell), expected);
}

// Splits a line at tabs.
class TabCells {
 public:
  explicit TabCells(std::string_view line) : rest_(line) {}

  bool at_end() const { return done_; }

  bool Next(std::string_view& cell) {
    if (done_) return false;
    Take(rest_.find('\t'), cell);
    return true;
  }

  // NextInteger() and NextLongId() take the next cell if it is such a number. They do not look for
  // the cell's end first.

  bool NextInteger(std::string_view& cell, int64_t& value) {
    const char* const end = rest_.data() + rest_.size();
    const auto [stop, error] = std::from_chars(rest_.data(), end, value);
    return error == std::errc() && EndAt(stop - rest_.data(), cell);
  }

  // Takes 8 or 16 hexadecimal digits.
  bool NextLongId(std::string_view& cell, uint64_t& id) {
    if (rest_.size() < 8) return false;
    const std::optional<uint64_t> high = EightDigits(rest_.data());
    if (!high) return false;
    if (rest_.size() >= 16) {
      if (const auto low = EightDigits(rest_.data() + 8)) {
        id = *high << 32 | *low;
        return EndAt(16, cell);
      }
    }
    id = *high;
    return EndAt(8, cell);
  }

 private:
  // Takes the next cell if it has this size.
  bool EndAt(size_t size, std::string_view& cell) {
    if (done_ || (size != rest_.size() && rest_[size] != '\t')) return false;
    Take(size == rest_.size() ? rest_.npos : size, cell);
    return true;
  }

  // Takes the next cell. tab: where it ends, or npos.
  void Take(size_t tab, std::string_view& cell) {
    cell = rest_.substr(0, tab);
    done_ = tab == rest_.npos;
    rest_.remove_prefix(done_ ? rest_.size() : tab + 1);
  }

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
    for (const ColumnConfig& column : columns_) {
      for (int value = 0; column.kind == ColumnConfig::Kind::kDense && value < kTabled; ++value) {
        scaled_.push_back(Scaled(column, value));
      }
    }
  }

  Status Parse(std::string_view line, const FileColumns* columns, BatchBuilder& builder) override;
  Status ParseCells(std::span<const Cell* const> cells, std::span<const bool> repeated,
                    BatchBuilder& builder) override;

 private:
  static constexpr int kTabled = 1'024;  // Number of values from 0 on, which most cells have.

  Status AddNextCell(size_t column, TabCells& cells, BatchBuilder& builder);
  Status AddText(size_t column, std::string_view cell, BatchBuilder& builder);
  Status AddDense(size_t column, std::string_view cell, int64_t value, BatchBuilder& builder);
  Status SetDense(size_t column, int64_t value, BatchBuilder& builder);
  Status SetLabel(size_t task, const Cell& cell, BatchBuilder& builder);
  Status AddCell(size_t column, const Cell& cell, BatchBuilder& builder);
  Status WrongCellCount(std::string_view line) const;

  const bool ignores_labels_;
  size_t tasks_;
  std::vector<ColumnConfig> columns_;
  std::unique_ptr<RowConsumer> consumer_;
  std::vector<float> scaled_;        // (dense columns, kTabled): Scaled() of small values.
  RowCells cells_;                   // Cells of the current row.
  bool is_whole_ = false;            // ParseCells() parsed the current row without an error.
  std::vector<NumberText> numbers_;  // Numbers of the current row; never reallocates.
  // Whether a column's cell equals that of the row before.
  std::array<bool, kMaxTasks + kCriteoDenseColumns + kCriteoIdColumns> repeated_{};
};

Status CriteoParser::WrongCellCount(std::string_view line) const {
  size_t count = 1;
  for (const char c : line) count += c == '\t' ? 1 : 0;
  return Invalid(
      "%d tab-separated cells, the criteo format has %d: %s, I1 to I13, C1 to C26; correct the row "
      "or `format`",
      count, columns_.size(), tasks_ == 1 ? "label" : absl::StrCat(tasks_, " labels"));
}

Status CriteoParser::Parse(std::string_view line, const FileColumns* /*columns*/,
                           BatchBuilder& builder) {
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
  cells_.Begin(/*is_whole=*/std::exchange(is_whole_, false));
  for (size_t task = 0; task < tasks_; ++task) cells_.EndCell();
  for (size_t column = tasks_; column < columns_.size(); ++column) {
    if (cells.at_end()) return WrongCellCount(line);
    SIMURGH_RETURN_IF_ERROR(AddNextCell(column, cells, builder));
    cells_.EndCell();
  }
  if (cells.Next(cell)) return WrongCellCount(line);
  return consumer_->Consume(cells_, builder);
}

Status CriteoParser::ParseCells(std::span<const Cell* const> cells, std::span<const bool> repeated,
                                BatchBuilder& builder) {
  cells_.Begin(/*is_whole=*/std::exchange(is_whole_, false));
  numbers_.clear();
  for (size_t task = 0; task < tasks_; ++task) {
    if (!ignores_labels_) SIMURGH_RETURN_IF_ERROR(SetLabel(task, *cells[task], builder));
    cells_.EndCell();
  }
  if (!ignores_labels_) cells = cells.subspan(tasks_);
  for (size_t column = tasks_; column < columns_.size(); ++column) {
    const bool is_dense = columns_[column].kind == ColumnConfig::Kind::kDense;
    repeated_[column] = !repeated.empty() && repeated[column - tasks_];
    // The text of a number belongs to the current row, so it cannot be repeated.
    if (!repeated_[column] || (is_dense && consumer_->Reads(column))) {
      SIMURGH_RETURN_IF_ERROR(AddCell(column, *cells[column - tasks_], builder));
    } else {
      cells_.Repeat();
      if (is_dense) builder.RepeatDense(column - tasks_);
    }
    cells_.EndCell();
  }
  if (!repeated.empty()) cells_.SetRepeated(repeated_);
  SIMURGH_RETURN_IF_ERROR(consumer_->Consume(cells_, builder));
  is_whole_ = true;
  return absl::OkStatus();
}

Status CriteoParser::SetLabel(size_t task, const Cell& cell, BatchBuilder& builder) {
  std::string text;
  if (cell.kind == Cell::Kind::kText) text = cell.text;
  if (cell.kind == Cell::Kind::kNumber) text = NumberText(cell.number).view();
  if (text != "0" && text != "1") return BadCell(columns_[task].name, text, "a label, 0 or 1");
  builder.SetLabel(text == "1" ? 1.0F : 0.0F, task);
  return absl::OkStatus();
}

Status CriteoParser::AddCell(size_t column, const Cell& cell, BatchBuilder& builder) {
  const ColumnConfig& config = columns_[column];
  switch (cell.kind) {
    case Cell::Kind::kMissing:
      return absl::OkStatus();
    case Cell::Kind::kText:
      return AddText(column, cell.text, builder);
    case Cell::Kind::kNumber: {
      // Whole numbers need no text.
      constexpr double kMostWhole = 1e15;  // Whole numbers to here are exact, without an exponent.
      const bool is_whole =
          std::abs(cell.number) <= kMostWhole && std::trunc(cell.number) == cell.number;
      if (is_whole && config.kind == ColumnConfig::Kind::kDense && !consumer_->Reads(column)) {
        return SetDense(column, static_cast<int64_t>(cell.number), builder);
      }
      return AddText(column, numbers_.emplace_back(cell.number).view(), builder);
    }
    case Cell::Kind::kList:
      break;
  }
  return Invalid("column '%s': it has one value, not a list; correct the row", config.name);
}

// Adds the next cell. Requires that there is one.
Status CriteoParser::AddNextCell(size_t column, TabCells& cells, BatchBuilder& builder) {
  std::string_view cell;
  if (columns_[column].kind == ColumnConfig::Kind::kDense) {
    int64_t value = 0;
    if (cells.NextInteger(cell, value)) return AddDense(column, cell, value, builder);
  } else if (uint64_t id = 0; cells.NextLongId(cell, id)) {
    cells_.Add({.text = cell, .number = id, .is_number = true});
    return absl::OkStatus();
  }
  cells.Next(cell);
  return AddText(column, cell, builder);
}

Status CriteoParser::AddText(size_t column, std::string_view cell, BatchBuilder& builder) {
  if (cell.empty()) return absl::OkStatus();
  if (columns_[column].kind == ColumnConfig::Kind::kDense) {
    int64_t value = 0;
    if (ParseInteger(cell, 10, value)) return AddDense(column, cell, value, builder);
    return BadCell(columns_[column].name, cell, "an integer of 64 bits");
  }
  uint64_t id = 0;
  if (!ParseInteger(cell, 16, id)) {
    return BadCell(columns_[column].name, cell, "an id of 1 to 16 hexadecimal digits");
  }
  cells_.Add({.text = cell, .number = id, .is_number = true});
  return absl::OkStatus();
}

Status CriteoParser::AddDense(size_t column, std::string_view cell, int64_t value,
                              BatchBuilder& builder) {
  SIMURGH_RETURN_IF_ERROR(SetDense(column, value, builder));
  if (consumer_->Reads(column)) cells_.Add({.text = cell});
  return absl::OkStatus();
}

Status CriteoParser::SetDense(size_t column, int64_t value, BatchBuilder& builder) {
  const size_t dense = column - tasks_;
  const float scaled = 0 <= value && value < kTabled
                           ? scaled_[dense * kTabled + static_cast<size_t>(value)]
                           : Scaled(columns_[column], static_cast<double>(value));
  if (!std::isfinite(scaled)) {
    return BadCell(columns_[column].name, absl::StrCat(value),
                   "small enough for the column's fitted deviation");
  }
  builder.SetDense(dense, scaled);
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<RowParser> NewCriteoParser(const DataConfig& config, bool ignore_labels,
                                           std::unique_ptr<RowConsumer> consumer) {
  return std::make_unique<CriteoParser>(config, ignore_labels, std::move(consumer));
}

}  // namespace simurgh
