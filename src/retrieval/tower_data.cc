#include "retrieval/tower_data.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "config/retrieval.h"
#include "data/reading/batch_reader.h"
#include "data/reading/row_lines.h"

namespace simurgh {
namespace {

using Format = DataConfig::Format;

// Compares the header of each CSV file with the columns that it needs.
Status CheckHeaders(const DataConfig& data, const std::vector<std::string>& needed,
                    const std::vector<std::string>& files) {
  DataConfig lenient = data;
  for (ColumnConfig& column : lenient.columns) column.may_lack = true;
  for (const std::string& file : files) {
    SIMURGH_ASSIGN_OR_RETURN(
        const RowLines lines,
        RowLines::Open(lenient, {file}, {.ignore_labels = true, .allow_pipes = true}));
    if (lines.columns() == nullptr && lines.has_names()) continue;  // All columns, in order.
    std::vector<std::string> missing;
    for (size_t c = 0; c < data.columns.size(); ++c) {
      const std::string& name = data.columns[c].name;
      const bool is_needed = std::ranges::find(needed, name) != needed.end();
      const bool has =
          lines.columns() != nullptr && lines.columns()->cells[c] != FileColumns::kAbsent;
      if (is_needed && !has) missing.push_back(HeaderName(data.columns[c]));
    }
    if (missing.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file, ":1: the header lacks ", missing.size() == 1 ? "column " : "columns ",
                     absl::StrJoin(missing, ", "), "; add ", missing.size() == 1 ? "it" : "them"));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::string> TowerOf(const ClusterConfig& config, TowerSide side) {
  const std::optional<TwoTowers> towers = TwoTowersOf(config);
  if (towers) return side == TowerSide::kUser ? towers->user : towers->item;
  return absl::InvalidArgumentError(
      "the model has no vectors of users and items: its last tower is no dot of two towers; use a "
      "model: two_tower");
}

StatusOr<DataConfig> DataOfTower(const ClusterConfig& config, const DataConfig& data,
                                 TowerSide side, const std::vector<std::string>& texts,
                                 const std::vector<std::string>& files) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string tower, TowerOf(config, side));
  DataConfig own = data;
  std::vector<std::string> needed = ColumnsOfTower(config, tower);
  for (ColumnConfig& column : own.columns) {
    column.may_lack = std::ranges::find(needed, column.name) == needed.end();
  }
  for (const std::string& text : texts) {
    needed.push_back(text);
    const auto found = std::ranges::find(own.columns, text, &ColumnConfig::name);
    if (found == own.columns.end()) {
      own.columns.push_back({.name = text, .kind = ColumnConfig::Kind::kSkip});
    } else {
      found->may_lack = false;
    }
  }
  own.on_bad_row = DataConfig::OnBadRow::kFail;
  if (own.format != Format::kCsv) return own;
  own.csv.header = true;
  own.csv.finds_header = false;
  own.csv.strict = false;
  SIMURGH_RETURN_IF_ERROR(CheckHeaders(own, needed, files));
  return own;
}

StatusOr<ColumnTexts> ColumnTexts::Create(const DataConfig& data,
                                          const std::vector<std::string>& columns) {
  SIMURGH_ASSIGN_OR_RETURN(RowText text, RowText::Create(LinesOf(data), columns));
  return ColumnTexts(std::move(text));
}

const std::vector<std::string_view>& ColumnTexts::Of(std::string_view line) {
  found_.clear();
  for (const std::string_view text : text_.Cells(line)) {
    const absl::string_view stripped =
        absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size()));
    found_.emplace_back(stripped.data(), stripped.size());
  }
  return found_;
}

Status ItemIds::Add(std::string_view id) {
  const auto row = static_cast<uint32_t>(ids_.size());
  if (id.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("row ", row + 1, ": the item has no id; give each item one"));
  }
  const auto [entry, is_new] = positions_.emplace(id, row);
  if (!is_new) {
    return absl::InvalidArgumentError(absl::StrCat("rows ", entry->second + 1, " and ", row + 1,
                                                   " have the id '", std::string(id),
                                                   "'; keep one row an item"));
  }
  ids_.emplace_back(id);
  return absl::OkStatus();
}

std::optional<uint32_t> ItemIds::Find(std::string_view id) const {
  const auto found = positions_.find(std::string(id));
  if (found == positions_.end()) return std::nullopt;
  return found->second;
}

StatusOr<ItemIds> ReadItemIds(const ClusterConfig& config) {
  constexpr size_t kRows = 1'024;
  const ItemsConfig& items = config.data.items;
  SIMURGH_ASSIGN_OR_RETURN(const DataConfig data, DataOfTower(config, config.data, TowerSide::kItem,
                                                              {items.id}, items.files));
  SIMURGH_ASSIGN_OR_RETURN(ColumnTexts texts, ColumnTexts::Create(data, {items.id}));
  ItemIds ids;
  Status added;
  const ReadOptions reading{.on_row =
                                [&](std::string_view line, bool in_batch) {
                                  if (in_batch && added.ok()) added = ids.Add(texts.Of(line)[0]);
                                },
                            .ignore_labels = true,
                            .copies_skipped = true};
  SIMURGH_ASSIGN_OR_RETURN(const auto reader,
                           OpenBatchReader(data, config.features, items.files, kRows, reading));
  for (;;) {
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<Batch> batch, reader->Next());
    SIMURGH_RETURN_IF_ERROR(Annotate(added, absl::StrCat("items: ", items.files.front())));
    if (!batch) break;
  }
  if (ids.size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(items.files.front(), ": there is no item; give one row an item"));
  }
  return ids;
}

}  // namespace simurgh
