#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

#include "base/invalid.h"
#include "base/text.h"
#include "data/processing/numbers.h"
#include "data/reading/json_events.h"
#include "data/reading/row_parser.h"

namespace simurgh {
namespace {

// Lists of cells, in one array, which may move until the row ends.
class Lists {
 public:
  void Clear() {
    tokens_.clear();
    lists_.clear();
  }
  void Begin(size_t column) { lists_.push_back({column, tokens_.size(), tokens_.size()}); }
  void Add(std::string_view token) {
    tokens_.push_back(token);
    lists_.back().end = tokens_.size();
  }
  void SetCells(std::vector<Cell>& cells) const {
    for (const auto& [column, begin, end] : lists_) {
      cells[column] = {.kind = Cell::Kind::kList,
                       .list = std::span(tokens_).subspan(begin, end - begin)};
    }
  }

 private:
  struct List {
    size_t column;
    size_t begin;
    size_t end;
  };
  std::vector<std::string_view> tokens_;
  std::vector<List> lists_;
};

// Splits rows that are JSON objects. Ignores keys that are not columns.
class JsonCells final : public CellSplitter, JsonEvents {
 public:
  explicit JsonCells(const std::vector<ColumnConfig>& columns)
      : CellSplitter(columns.size()), columns_(columns), is_set_(columns.size()) {
    for (size_t c = 0; c < columns.size(); ++c) {
      if (columns[c].kind != ColumnConfig::Kind::kSkip) places_.emplace(HeaderName(columns[c]), c);
    }
  }

  Status Split(std::string_view row) override {
    std::ranges::fill(cells_, Cell());
    is_set_.assign(is_set_.size(), false);
    lists_.Clear();
    copies_.clear();
    copies_.reserve(row.size());  // Unescaped texts are shorter. The buffer must not move.
    depth_ = 0;
    column_.reset();
    error_ = absl::OkStatus();
    const Status parsed = ParseJson(row, *this);
    if (!parsed.ok()) return Invalid("the row is %s", parsed.message());
    lists_.SetCells(cells_);
    return error_;
  }

 private:
  std::string Where() const override {
    return column_ ? absl::StrCat("column '", columns_[*column_].name, "'") : "";
  }
  bool BeginObject() override {
    if (++depth_ == 1) return true;
    return !column_ || Refuse("is an object; give a text, a number, or an array of these");
  }
  bool EndObject() override {
    --depth_;
    return true;
  }
  bool BeginArray() override {
    if (++depth_ == 1) return RefuseRow();
    if (!column_) return true;
    if (depth_ > 2) return Refuse("has an array in an array; give one array");
    lists_.Begin(*column_);
    return true;
  }
  bool EndArray() override {
    --depth_;
    return true;
  }
  bool Key(std::string_view key) override {
    if (depth_ > 1) return true;
    const auto found = places_.find(absl::string_view(key.data(), key.size()));
    column_ = found == places_.end() ? std::nullopt : std::optional(found->second);
    if (!column_) return true;
    if (is_set_[*column_]) return Refuse("is given twice; remove one");
    is_set_[*column_] = true;
    return true;
  }
  bool Scalar(const JsonScalar& value) override {
    if (depth_ == 0) return RefuseRow();
    if (!column_ || value.kind == JsonScalar::Kind::kNull) return true;
    const std::string_view text = TextOf(value);
    if (depth_ == 2) {
      lists_.Add(text);
    } else if (const auto number = ConvertedNumber(value)) {
      cells_[*column_] = {.kind = Cell::Kind::kNumber, .number = *number};
    } else {
      cells_[*column_] = {.kind = Cell::Kind::kText, .text = text};
    }
    return true;
  }

  // Returns a number in a column whose texts are converted to numbers.
  std::optional<double> ConvertedNumber(const JsonScalar& value) const {
    const bool is_converted =
        value.kind == JsonScalar::Kind::kNumber && IsConverted(columns_[*column_]);
    return is_converted ? ParseNumberCell(value.text) : std::nullopt;
  }

  std::string_view TextOf(const JsonScalar& value) {
    if (value.kind == JsonScalar::Kind::kNumber) return value.text;
    if (value.kind == JsonScalar::Kind::kBool) {
      const ColumnConfig& column = columns_[*column_];
      const bool is_number = column.kind == ColumnConfig::Kind::kDense ||
                             column.kind == ColumnConfig::Kind::kWeight ||
                             (column.kind == ColumnConfig::Kind::kLabel && column.positive.empty());
      if (!is_number) return value.text == "true" ? "true" : "false";
      return value.text == "true" ? "1" : "0";
    }
    const size_t begin = copies_.size();
    copies_.append(value.text);
    return std::string_view(copies_).substr(begin);
  }

  bool Refuse(std::string_view problem) {
    error_ = Invalid("column '%s': %s", columns_[*column_].name, problem);
    return false;
  }
  bool RefuseRow() {
    error_ =
        absl::InvalidArgumentError("the row is no JSON object; write {\"column\": value, ...}");
    return false;
  }

  const std::vector<ColumnConfig> columns_;
  absl::flat_hash_map<std::string, size_t> places_;  // Name -> index of the column.
  // The members below belong to the current row.
  std::vector<bool> is_set_;  // One per column.
  Lists lists_;
  std::string copies_;            // Unescaped texts.
  size_t depth_ = 0;              // Number of open objects and arrays.
  std::optional<size_t> column_;  // Column of the last key of the row.
  Status error_;
};

// Splits rows of libsvm or libffm. Pairs keep their order within a list.
class PairCells final : public CellSplitter {
 public:
  explicit PairCells(const DataConfig& config)
      : CellSplitter(config.columns.size()),
        fields_(config.format == DataConfig::Format::kLibffm ? config.libffm_fields : 0),
        is_binary_(config.columns.front().label_values == ColumnConfig::LabelValues::kBinary) {}

  Status Split(std::string_view row) override {
    std::ranges::fill(cells_, Cell());
    lists_.Clear();
    pairs_.clear();
    std::string_view token = Take(row);
    if (token.find(':') == token.npos && !token.starts_with('#')) {
      SetLabel(token);
      token = Take(row);
    }
    for (; !token.empty() && !token.starts_with('#'); token = Take(row)) {
      if (fields_ == 0 && pairs_.empty() && token.starts_with("qid:")) continue;
      SIMURGH_RETURN_IF_ERROR(AddPair(token));
    }
    const auto order = [](const Pair& pair) { return std::pair(pair.column, pair.text.data()); };
    if (!std::ranges::is_sorted(pairs_, {}, order)) std::ranges::sort(pairs_, {}, order);
    for (size_t i = 0; i < pairs_.size(); ++i) {
      if (i == 0 || pairs_[i].column != pairs_[i - 1].column) lists_.Begin(pairs_[i].column);
      lists_.Add(pairs_[i].text);
    }
    lists_.SetCells(cells_);
    return absl::OkStatus();
  }

 private:
  struct Pair {
    size_t column;
    std::string_view text;  // The pair, index:value.
  };

  // Removes the text up to the next blank from `rest` and returns it; empty at the end.
  static std::string_view Take(std::string_view& rest) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    const std::string_view token = rest.substr(0, rest.find_first_of(" \t"));
    rest.remove_prefix(token.size());
    return token;
  }

  void SetLabel(std::string_view text) {
    if (text.starts_with('+')) text.remove_prefix(1);
    if (is_binary_ && text == "-1") text = "0";
    cells_[0] = {.kind = Cell::Kind::kText, .text = text};
  }

  Status AddPair(std::string_view token) {
    size_t column = 1;
    std::string_view pair = token;
    if (fields_ > 0) {
      const std::string_view digits = token.substr(0, token.find(':'));
      const std::optional<uint64_t> field = ParseIntegerCell(digits);
      if (!field || digits.size() == token.size()) return BadPair(token);
      if (*field >= fields_) {
        return Invalid("pair %d: field %s is not below data.libffm.fields, %d; correct one of them",
                       pairs_.size() + 1, Quoted(digits), fields_);
      }
      column = 1 + *field;
      pair.remove_prefix(digits.size() + 1);
    }
    const size_t colon = pair.find(':');
    if (colon == pair.npos || pair.starts_with('-') || !ParseIntegerCell(pair.substr(0, colon)) ||
        !ParseFloatCell(pair.substr(colon + 1))) {
      return BadPair(token);
    }
    pairs_.push_back({column, pair});
    return absl::OkStatus();
  }

  Status BadPair(std::string_view token) const {
    return Invalid("pair %d: %s is not %sindex:value, an integer and a number; correct the row",
                   pairs_.size() + 1, Quoted(token), fields_ > 0 ? "field:" : "");
  }

  const uint32_t fields_;  // Number of fields of libffm; 0: libsvm.
  const bool is_binary_;   // The label is binary.
  std::vector<Pair> pairs_;
  Lists lists_;
};

}  // namespace

std::unique_ptr<CellSplitter> NewCellSplitter(const DataConfig& config) {
  switch (config.format) {
    case DataConfig::Format::kCsv:
    case DataConfig::Format::kCriteo:
    case DataConfig::Format::kParquet:
    case DataConfig::Format::kArrow:
      return nullptr;
    case DataConfig::Format::kJson:
      return std::make_unique<JsonCells>(config.columns);
    case DataConfig::Format::kLibsvm:
    case DataConfig::Format::kLibffm:
      return std::make_unique<PairCells>(config);
  }
  return nullptr;
}

}  // namespace simurgh
