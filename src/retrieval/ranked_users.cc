#include "retrieval/ranked_users.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "config/retrieval.h"

namespace simurgh {
namespace {

// A row of an evaluation.
struct RankedRow {
  uint64_t user = 0;           // Hash of what names the user.
  std::string_view item = {};  // Text that names the item.
  bool is_relevant = false;
};

// Finds the user of each row of a batch.
class UserKeys {
 public:
  explicit UserKeys(const ClusterConfig& config) {
    const std::optional<TwoTowers> towers = TwoTowersOf(config);
    if (!towers) return;
    const std::vector<std::string> columns = ColumnsOfTower(config, towers->user);
    const auto reads = [&](const std::string& name) {
      return std::ranges::find(columns, name) != columns.end();
    };
    for (size_t f = 0; f < config.features.size(); ++f) {
      const std::vector<std::string> sources = config.features[f].sources();
      if (std::ranges::all_of(sources, reads)) features_.push_back(f);
    }
    for (const ColumnConfig& column : ColumnsOf(config.data)) {
      reads_dense_ =
          reads_dense_ || (column.kind == ColumnConfig::Kind::kDense && reads(column.name));
    }
  }

  uint64_t Of(const Batch& batch, size_t row) const {
    if (!batch.dense.groups.empty() && batch.dense.groups[row] != 0) {
      return batch.dense.groups[row];
    }
    uint64_t key = 0;
    const auto add = [&key](uint64_t value) { key = Mix64(key + Mix64(value + 1)); };
    for (const size_t f : features_) {
      add(f);
      const FeatureView view = batch.sparse->feature(f);
      const size_t first = view.offsets[row] - view.offsets[0];
      const std::span<const uint32_t> occurrences = view.sample(row);
      for (size_t i = 0; i < occurrences.size(); ++i) {
        add(view.ids[occurrences[i]]);
        if (!view.weights.empty()) add(std::bit_cast<uint32_t>(view.weights[first + i]));
      }
    }
    if (!reads_dense_) return key;
    for (const float value : batch.dense.matrix().row(row)) add(std::bit_cast<uint32_t>(value));
    return key;
  }

 private:
  std::vector<size_t> features_;  // Features of the user's tower.
  bool reads_dense_ = false;
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
  const UserKeys keys(config);
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
    for (size_t row = 0; row < batch->size(); ++row) {
      visit({.user = users.empty() ? keys.Of(*batch, row) : users[row],
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
  const auto add = [&](const RankedRow& row) {
    const auto user = users_.find(row.user);
    if (user == users_.end()) return;
    if (const std::optional<uint32_t> item = items.Find(row.item)) {
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
