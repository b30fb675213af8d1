#include "retrieval/item_columns.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "retrieval/tower_data.h"

#include "base/text.h"
#include "config/nearest.h"
#include "config/retrieval.h"
#include "data/reading/csv_cells.h"
#include "data/reading/json_events.h"
#include "data/reading/row_lines.h"

namespace simurgh {
namespace {

using Format = DataConfig::Format;

// The keys of an object, without those of objects in it.
class TopKeys final : public JsonEvents {
 public:
  bool BeginObject() override { return Enter(); }
  bool EndObject() override { return Leave(); }
  bool BeginArray() override { return Enter(); }
  bool EndArray() override { return Leave(); }
  bool Key(std::string_view key) override {
    if (depth_ == 1) names.emplace_back(key);
    return true;
  }
  bool Scalar(const JsonScalar& /*value*/) override { return true; }

  std::vector<std::string> names;

 private:
  bool Enter() {
    ++depth_;
    return true;
  }
  bool Leave() {
    --depth_;
    return true;
  }

  size_t depth_ = 0;
};

// Returns the names in a header of CSV, or the keys of the first row of JSON.
StatusOr<std::vector<std::string>> NamesIn(DataConfig data, const std::string& file) {
  data.csv.header = false;  // The header is the first row.
  data.csv.finds_header = false;
  SIMURGH_ASSIGN_OR_RETURN(RowLines lines, RowLines::Open(data, {file}, {.ignore_labels = true}));
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<Line> first, lines.Next());
  if (!first) return std::vector<std::string>();
  if (data.format == Format::kJson) {
    TopKeys keys;
    const Status parsed = ParseJson(first->text, keys);
    if (!parsed.ok()) return lines.AtLine(parsed);
    return std::move(keys.names);
  }
  CsvSplitter splitter(data.csv.separator);
  const auto cells = splitter.Split(first->text);
  if (!cells.ok()) return lines.AtLine(cells.status());
  return std::vector<std::string>((*cells)->begin(), (*cells)->end());
}

// Returns a name without what readers of headers ignore: case, blanks and punctuation.
std::string Plain(const std::string& name) {
  std::string plain;
  for (const char c : name) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c))) plain += absl::ascii_tolower(c);
  }
  return plain;
}

}  // namespace

ItemColumn::ItemColumn(std::string column, const std::vector<std::string>& texts)
    : name(std::move(column)) {
  absl::flat_hash_map<std::string_view, uint32_t> known;
  codes.reserve(texts.size());
  for (const std::string& text : texts) {
    const auto [code, is_new] = known.emplace(text, static_cast<uint32_t>(values.size()));
    if (is_new) values.push_back(text);
    codes.push_back(code->second);
  }
}

StatusOr<std::vector<uint64_t>> PositionsThatPass(const std::vector<CellFilter>& filters,
                                                  const std::vector<ItemColumn>& columns,
                                                  size_t items) {
  std::vector<uint64_t> allowed;
  for (const CellFilter& filter : filters) {
    const auto column = std::ranges::find(columns, filter.column, &ItemColumn::name);
    if (column == columns.end()) {
      std::vector<std::string> names;
      for (const ItemColumn& one : columns) names.push_back(one.name);
      return absl::InvalidArgumentError(
          absl::StrCat("filter: column ", Quoted(filter.column), " is not in the item file; ",
                       NearestRemedy("column", filter.column, names)));
    }
    std::vector<uint8_t> passes(column->values.size());
    for (size_t i = 0; i < passes.size(); ++i) {
      passes[i] = std::ranges::find(filter.values, column->values[i]) != filter.values.end();
    }
    std::vector<uint64_t> bits((items + 63) / 64);
    for (size_t item = 0; item < items; ++item) {
      bits[item / 64] |= uint64_t{passes[column->codes[item]]} << (item % 64);
    }
    if (allowed.empty()) {
      allowed = std::move(bits);
    } else {
      for (size_t i = 0; i < bits.size(); ++i) allowed[i] &= bits[i];
    }
  }
  return allowed;
}

StatusOr<std::vector<std::string>> ItemColumnsIn(const ClusterConfig& config,
                                                 const std::string& file) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string tower, TowerOf(config, TowerSide::kItem));
  const DataConfig& data = config.data;
  if (data.format != Format::kCsv && data.format != Format::kJson) {
    return ColumnsOfTower(config, tower);
  }
  SIMURGH_ASSIGN_OR_RETURN(std::vector<std::string> names, NamesIn(data, file));
  std::erase(names, "");
  for (std::string& name : names) {
    const auto has_name = [&](const ColumnConfig& column) { return column.name == name; };
    const auto is_like = [&](const ColumnConfig& column) {
      return Plain(column.name) == Plain(name) || Plain(HeaderName(column)) == Plain(name);
    };
    if (std::ranges::any_of(data.columns, has_name)) continue;
    const auto found = std::ranges::find_if(data.columns, is_like);
    if (found != data.columns.end()) name = found->name;
  }
  std::erase_if(names, [&](const std::string& name) {
    const auto column = std::ranges::find(data.columns, name, &ColumnConfig::name);
    return column != data.columns.end() && IsTarget(column->kind);
  });
  return names;
}

StatusOr<std::string> ItemIdColumn(const ClusterConfig& config, const std::string& given) {
  if (!given.empty()) return given;
  if (!config.data.items.id.empty()) return config.data.items.id;
  SIMURGH_ASSIGN_OR_RETURN(const std::string tower, TowerOf(config, TowerSide::kItem));
  const std::vector<std::string> ids = IdColumnsOfTower(config, tower);
  if (ids.size() == 1) return ids.front();
  return absl::InvalidArgumentError(
      ids.empty()
          ? "the item's tower reads no id column; name the column whose text "
            "names an item in serving.item_id"
          : absl::StrCat("the item's tower reads several id columns: ", absl::StrJoin(ids, ", "),
                         "; name the one whose text names an item in serving.item_id"));
}

}  // namespace simurgh
