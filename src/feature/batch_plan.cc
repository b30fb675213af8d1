#include "simurgh/feature/batch_plan.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"

#include "simurgh/base/check.h"

namespace simurgh {
namespace {

// The batch's distinct (table, id) pairs in order of first appearance.
struct DistinctRows {
  std::vector<uint64_t> ids;        // (U)
  std::vector<uint32_t> tables;     // (U)
  std::vector<uint32_t> row_of_id;  // (ids of the batch) index into the two above.
};

// The table that each list's features read.
std::vector<uint32_t> TablesOfLists(const CompactBatch& batch, const BatchLayout& layout) {
  std::vector<uint32_t> tables(batch.list_count());
  for (size_t f = 0; f < layout.features.size(); ++f) {
    tables[batch.list_of(f)] = layout.features[f].table;
  }
  return tables;
}

DistinctRows FindDistinctRows(const CompactBatch& batch, const BatchLayout& layout) {
  const std::vector<uint32_t> table_of_list = TablesOfLists(batch, layout);
  std::vector<uint32_t> lists_of_table(layout.table_dims.size());
  for (const uint32_t table : table_of_list) ++lists_of_table[table];
  // A list's ids are distinct already: only tables with several lists can see an id twice.
  std::vector<absl::flat_hash_map<uint64_t, uint32_t>> seen(layout.table_dims.size());

  DistinctRows rows;
  rows.ids.reserve(batch.ids.size());
  rows.tables.reserve(batch.ids.size());
  rows.row_of_id.reserve(batch.ids.size());
  for (size_t l = 0; l < batch.list_count(); ++l) {
    const uint32_t table = table_of_list[l];
    for (const uint64_t id : batch.list(l)) {
      const auto next = static_cast<uint32_t>(rows.ids.size());
      if (lists_of_table[table] > 1) {
        const auto [entry, is_new] = seen[table].try_emplace(id, next);
        rows.row_of_id.push_back(entry->second);
        if (!is_new) continue;
      } else {
        rows.row_of_id.push_back(next);
      }
      rows.ids.push_back(id);
      rows.tables.push_back(table);
    }
  }
  return rows;
}

// Adds the group to the server's share, ids and floats following what is there already.
void AppendGroup(const RowGroup& group, size_t ids, BatchPlan& plan, ServerShare& share) {
  if (ids == 0) return;
  share.groups.push_back(group);
  share.id_count += ids;
  share.float_count += ids * group.dim;
  plan.row_floats += ids * group.dim;
}

}  // namespace

uint32_t BatchLayout::embedding_width() const {
  uint32_t width = 0;
  for (size_t f = 0; f < features.size(); ++f) width += dim(f);
  return width;
}

Status CheckLists(const CompactBatch& batch, const BatchLayout& layout) {
  const std::vector<uint32_t> tables = TablesOfLists(batch, layout);
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (layout.features[f].table != tables[batch.list_of(f)]) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "batch: feature %d reads table %d and shares list %d with a feature of table %d", f,
          layout.features[f].table, batch.list_of(f), tables[batch.list_of(f)]));
    }
  }
  return absl::OkStatus();
}

BatchPlan PlanBatch(const CompactBatch& batch, const BatchLayout& layout, const BucketMap& map) {
  SIMURGH_CHECK_EQ(batch.feature_count(), layout.features.size());
  const DistinctRows rows = FindDistinctRows(batch, layout);
  const size_t tables = layout.table_dims.size();
  const size_t partitions = map.partitions();

  // A counting sort by (server, table, partition); it keeps the order of first appearance.
  const auto key_of = [&](size_t row) {
    const uint32_t slot = map.SlotOf(rows.ids[row]);
    return (slot / partitions * tables + rows.tables[row]) * partitions + slot % partitions;
  };
  std::vector<uint32_t> counts(map.slots() * tables);
  for (size_t row = 0; row < rows.ids.size(); ++row) ++counts[key_of(row)];

  BatchPlan plan;
  plan.servers.resize(map.servers());
  std::vector<size_t> next_id(counts.size());
  std::vector<size_t> next_float(counts.size());
  size_t id_cursor = 0;
  for (uint32_t server = 0; server < map.servers(); ++server) {
    ServerShare& share = plan.servers[server];
    share.first_id = id_cursor;
    share.first_float = plan.row_floats;
    for (uint32_t table = 0; table < tables; ++table) {
      const uint32_t dim = layout.table_dims[table];
      const auto first =
          counts.begin() + static_cast<ptrdiff_t>((server * tables + table) * partitions);
      const RowGroup group{table, dim, {first, first + static_cast<ptrdiff_t>(partitions)}};
      size_t ids_of_group = 0;
      for (size_t p = 0; p < partitions; ++p) {
        const size_t key = (server * tables + table) * partitions + p;
        next_id[key] = id_cursor + ids_of_group;
        next_float[key] = plan.row_floats + ids_of_group * dim;
        ids_of_group += group.counts[p];
      }
      id_cursor += ids_of_group;
      AppendGroup(group, ids_of_group, plan, share);
    }
  }

  plan.ids.resize(rows.ids.size());
  std::vector<uint64_t> position(rows.ids.size());
  for (size_t row = 0; row < rows.ids.size(); ++row) {
    const size_t key = key_of(row);
    plan.ids[next_id[key]++] = rows.ids[row];
    position[row] = next_float[key];
    next_float[key] += layout.table_dims[rows.tables[row]];
  }
  plan.row_positions.reserve(rows.row_of_id.size());
  for (const uint32_t row : rows.row_of_id) plan.row_positions.push_back(position[row]);
  return plan;
}

}  // namespace simurgh
