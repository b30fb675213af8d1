#include "retrieval/ranked_users.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "nn/two_towers.h"
#include "train/dense_weights.h"

namespace simurgh {
namespace {

// A row of an evaluation.
struct RankedRow {
  uint64_t user = 0;           // Hash of what names the user.
  std::string_view item = {};  // Text that names the item.
  bool is_relevant = false;
};

Status ForEachRow(const ClusterConfig& config, const DataConfig& data,
                  const RankedUsers::Open& open,
                  absl::FunctionRef<void(const RankedRow& row)> visit,
                  absl::FunctionRef<Status(Batch& batch)> end_batch) {
  const ItemsConfig& items = config.data.items;
  std::vector<std::string> columns = {items.id};
  if (!items.user.empty()) columns.push_back(items.user);
  for (const std::string& column : columns) {
    if (std::ranges::find(data.columns, column, &ColumnConfig::name) != data.columns.end()) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("data.items: the rows to evaluate have no column '", column,
                     "'; add it to data.columns, with kind: skip if no feature reads it"));
  }
  SIMURGH_ASSIGN_OR_RETURN(ColumnTexts texts, ColumnTexts::Create(data, columns));
  SIMURGH_ASSIGN_OR_RETURN(TwoTowerColumns towers,
                           ColumnsOfTwoTowers(config.model, InputsOf(config)));
  std::vector<std::string> ids;
  std::vector<uint64_t> users;
  const RowObserver on_row = [&](std::string_view line, bool in_batch) {
    if (!in_batch) return;
    const std::vector<std::string_view>& found = texts.Of(line);
    ids.emplace_back(found[0]);
    if (found.size() > 1) users.push_back(HashBytes(found[1]));
  };
  SIMURGH_ASSIGN_OR_RETURN(const std::unique_ptr<BatchReader> reader, open(data, on_row));
  for (;;) {
    ids.clear();
    users.clear();
    SIMURGH_ASSIGN_OR_RETURN(std::optional<Batch> batch, reader->Next());
    if (!batch) return absl::OkStatus();
    if (items.user.empty()) {
      // Masks of sequences follow the dense values in training only. They repeat what the ids tell.
      const size_t width = batch->dense.matrix().columns();
      std::erase_if(towers.user.dense, [&](size_t column) { return column >= width; });
      users = KeysOf(towers.user, *batch);
      const std::vector<uint64_t>& groups = batch->dense.groups;
      for (size_t row = 0; row < groups.size(); ++row) {
        if (groups[row] != 0) users[row] = groups[row];
      }
    }
    for (size_t row = 0; row < batch->size(); ++row) {
      visit({.user = users[row],
             .item = ids[row],
             .is_relevant = batch->dense.labels[row * batch->dense.tasks] > 0});
    }
    SIMURGH_RETURN_IF_ERROR(end_batch(*batch));
  }
}

void SortOnce(std::vector<uint32_t>& items) {
  std::ranges::sort(items);
  items.erase(std::ranges::unique(items).begin(), items.end());
  items.shrink_to_fit();
}

}  // namespace

StatusOr<RankedUsers> RankedUsers::Read(const ClusterConfig& config, const DataConfig& data,
                                        const ItemIds& items, const Open& open,
                                        const OnQueries& on_queries) {
  RankedUsers result;
  std::vector<std::vector<uint64_t>> unknown;  // Hashes of the unknown items of each user.
  uint64_t next = 0;
  uint64_t first = 0;             // Number of the batch's first row.
  std::vector<uint32_t> queries;  // Rows of the batch.
  const auto end_batch = [&](Batch& batch) -> Status {
    first = next;
    if (on_queries && !queries.empty()) SIMURGH_RETURN_IF_ERROR(on_queries(batch, queries));
    queries.clear();
    return absl::OkStatus();
  };
  const auto add = [&](const RankedRow& row) {
    const uint64_t number = next++;
    if (!row.is_relevant) return;
    const auto [user, is_new] =
        result.users_.emplace(row.user, static_cast<uint32_t>(result.items_.size()));
    if (is_new) {
      result.items_.emplace_back();
      result.rows_.push_back(number);
      unknown.emplace_back();
      queries.push_back(static_cast<uint32_t>(number - first));
    }
    const std::optional<uint32_t> item = items.Find(row.item);
    if (item) {
      result.items_[user->second].relevant.push_back(*item);
    } else {
      unknown[user->second].push_back(HashBytes(row.item));
    }
  };
  SIMURGH_RETURN_IF_ERROR(ForEachRow(config, data, open, add, end_batch));
  if (result.items_.empty()) {
    return absl::InvalidArgumentError(
        "evaluation: no row has a label above 0; check the files and the label column");
  }
  for (size_t user = 0; user < result.items_.size(); ++user) {
    SortOnce(result.items_[user].relevant);
    std::ranges::sort(unknown[user]);
    result.items_[user].unknown =
        static_cast<uint32_t>(std::ranges::unique(unknown[user]).begin() - unknown[user].begin());
  }
  return result;
}

Status RankedUsers::ExcludeSeen(const ClusterConfig& config, const DataConfig& data,
                                const ItemIds& items, const Open& open) {
  popular_.assign(items.size(), 0);
  const auto add = [&](const RankedRow& row) {
    const std::optional<uint32_t> item = items.Find(row.item);
    if (!item) return;
    if (row.is_relevant) ++popular_[*item];
    if (const auto user = users_.find(row.user); user != users_.end()) {
      items_[user->second].seen.push_back(*item);
    }
  };
  SIMURGH_RETURN_IF_ERROR(
      ForEachRow(config, data, open, add, [](Batch& /*batch*/) { return absl::OkStatus(); }));
  for (UserItems& user : items_) {
    SortOnce(user.seen);
    std::erase_if(user.seen,
                  [&](uint32_t item) { return std::ranges::binary_search(user.relevant, item); });
  }
  return absl::OkStatus();
}

StatusOr<double> RankedUsers::PopularRecall() const {
  if (popular_.empty()) return std::numeric_limits<double>::quiet_NaN();
  const std::vector<float> one(size(), 1);
  SIMURGH_ASSIGN_OR_RETURN(
      const RankingResult ranking,
      RankItems({one.data(), one.size(), 1}, {popular_.data(), popular_.size(), 1}, items_,
                {{kComparedItems}}));
  return ranking.compared().recall;
}

std::optional<uint32_t> RankedUsers::UserOf(uint64_t row) const {
  const auto found = std::ranges::lower_bound(rows_, row);
  if (found == rows_.end() || *found != row) return std::nullopt;
  return static_cast<uint32_t>(found - rows_.begin());
}

RankedUsers::Open OpenLabelledRows(const ClusterConfig& config,
                                   const std::vector<std::string>& files) {
  return [&config, &files](const DataConfig& data, const RowObserver& on_row) {
    return OpenBatchReader(data, config.features, files, config.training.batch_size,
                           {.on_row = on_row, .copies_skipped = true});
  };
}

StatusOr<RankedUsers> ReadRankedUsers(const ClusterConfig& config, const DataConfig& data,
                                      const ItemIds& items, const RankedUsers::Open& open,
                                      const RankedUsers::OnQueries& on_queries) {
  SIMURGH_ASSIGN_OR_RETURN(RankedUsers users,
                           RankedUsers::Read(config, data, items, open, on_queries));
  if (!config.data.items.exclude_seen) return users;
  if (config.data.streams() || std::ranges::any_of(config.data.train, IsStream)) {
    return absl::InvalidArgumentError(
        "data.items.exclude_seen: data.train is a stream, which cannot be read again; remove it");
  }
  SIMURGH_RETURN_IF_ERROR(
      users.ExcludeSeen(config, config.data, items, OpenLabelledRows(config, config.data.train)));
  return users;
}

}  // namespace simurgh
