#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "retrieval/ranking_metrics.h"
#include "retrieval/tower_data.h"

#include "base/status.h"
#include "config/cluster_config.h"
#include "data/batch/batch.h"
#include "data/reading/batch_reader.h"

namespace simurgh {

// The users of an evaluation: rows with a label above 0, by the user that data.items.user, the
// column of kind group or the inputs of the user's tower name. A user's query is its first such
// row.
//
// Memory: some 150 bytes a user, and 4 bytes for each relevant or seen item. Threads: one owner.
class RankedUsers {
 public:
  // Opens a reader of the rows with labels. It calls on_row for each row, before the batch with it.
  using Open = std::function<StatusOr<std::unique_ptr<BatchReader>>(const DataConfig& data,
                                                                    const RowObserver& on_row)>;

  // Gets a batch with the queries of the next users: `rows` of the batch, ascending.
  using OnQueries = std::function<Status(Batch& batch, std::span<const uint32_t> rows)>;

  // Reads the rows. data: their format. on_queries: called for each batch with queries; may be
  // empty.
  // Errors: INVALID_ARGUMENT for a column that `data` lacks, or without a row with a label above 0;
  // those of `open` and of reading.
  static StatusOr<RankedUsers> Read(const ClusterConfig& config, const DataConfig& data,
                                    const ItemIds& items, const Open& open,
                                    const OnQueries& on_queries = nullptr);

  // Leaves out of the ranking what the users have in these rows, whatever the label, unless it is
  // relevant. Counts how popular the items are in them. Errors: as Read().
  Status ExcludeSeen(const ClusterConfig& config, const DataConfig& data, const ItemIds& items,
                     const Open& open);

  size_t size() const { return items_.size(); }
  std::span<const UserItems> items() const { return items_; }
  // Returns the recall of a ranking by the rows of ExcludeSeen() with a label above 0, see
  // RankingResult::popular_recall; NaN before ExcludeSeen(). Errors: INTERNAL when oneDNN fails.
  StatusOr<double> PopularRecall() const;
  // Returns the user whose query is this row, counted from 0 over the rows of all batches.
  std::optional<uint32_t> UserOf(uint64_t row) const;

 private:
  // Numbers of users, by the hash of what names a user.
  std::unordered_map<uint64_t, uint32_t> users_;
  std::vector<UserItems> items_;  // Indexed by user.
  std::vector<uint64_t> rows_;    // Indexed by user: row of the query, ascending.
  std::vector<float> popular_;    // Indexed by item: rows of ExcludeSeen() with a label above 0.
};

// Returns a function that opens files of rows with labels.
// Lifetime: the configuration and the files outlive it.
RankedUsers::Open OpenLabelledRows(const ClusterConfig& config,
                                   const std::vector<std::string>& files);

// RankedUsers::Read() and, with data.items.exclude_seen, ExcludeSeen() of the training files.
// Errors: those of both; INVALID_ARGUMENT for a training on a stream, which cannot be read again.
StatusOr<RankedUsers> ReadRankedUsers(const ClusterConfig& config, const DataConfig& data,
                                      const ItemIds& items, const RankedUsers::Open& open,
                                      const RankedUsers::OnQueries& on_queries = nullptr);

}  // namespace simurgh
