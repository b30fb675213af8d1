#include "embedding/batch_plan.h"

#include <algorithm>

#include "absl/strings/str_format.h"

#include "base/check.h"

namespace simurgh {
namespace {

// Returns each list's table.
std::vector<uint32_t> TablesOfLists(const CompactBatch& batch, const BatchLayout& layout) {
  std::vector<uint32_t> tables(batch.list_count());
  for (size_t f = 0; f < layout.features.size(); ++f) {
    tables[batch.list_of(f)] = layout.features[f].table;
  }
  return tables;
}

// Fills the scratch's ids, tables and row_of_id.
void FindDistinctRows(const CompactBatch& batch, const BatchLayout& layout, PlanScratch& rows) {
  const std::vector<uint32_t> table_of_list = TablesOfLists(batch, layout);
  std::vector<uint32_t> lists_of_table(layout.table_dims.size());
  for (const uint32_t table : table_of_list) ++lists_of_table[table];
  rows.ids.clear();
  rows.tables.clear();
  rows.row_of_id.clear();
  rows.seen.resize(layout.table_dims.size());
  // clear() would free the memory of a large map.
  for (auto& seen : rows.seen) seen.erase(seen.begin(), seen.end());
  for (size_t l = 0; l < batch.list_count(); ++l) {
    const uint32_t table = table_of_list[l];
    const std::span<const uint64_t> ids = batch.list(l);
    auto next = static_cast<uint32_t>(rows.ids.size());
    // The ids of a list are distinct: only a table with several lists can have an id twice.
    if (lists_of_table[table] == 1) {
      rows.ids.insert(rows.ids.end(), ids.begin(), ids.end());
      for (size_t i = 0; i < ids.size(); ++i) rows.row_of_id.push_back(next++);
    } else {
      for (const uint64_t id : ids) {
        const auto [entry, is_new] = rows.seen[table].try_emplace(id, next);
        rows.row_of_id.push_back(entry->second);
        if (!is_new) continue;
        rows.ids.push_back(id);
        ++next;
      }
    }
    rows.tables.resize(rows.ids.size(), table);
  }
}

// Fills the keys of a counting sort by (server, table, partition), which keeps the order of first
// appearance, and the number of rows of each key.
void CountRows(const BatchLayout& layout, const BucketMap& map, PlanScratch& rows) {
  const auto tables = static_cast<uint32_t>(layout.table_dims.size());
  const uint32_t partitions = map.partitions();
  rows.counts.assign(size_t{map.slots()} * tables, 0);
  rows.keys.resize(rows.ids.size());
  for (size_t row = 0; row < rows.ids.size(); ++row) {
    const uint32_t slot = map.SlotOf(rows.ids[row]);
    const uint32_t server = slot / partitions;
    rows.keys[row] = (server * (tables - 1) + rows.tables[row]) * partitions + slot;
    ++rows.counts[rows.keys[row]];
  }
}

// Fills the first id and float of each key, and the servers' shares.
void PlaceShares(const BatchLayout& layout, const BucketMap& map, PlanScratch& rows,
                 BatchPlan& plan) {
  const size_t tables = layout.table_dims.size();
  const size_t partitions = map.partitions();
  plan.servers.assign(map.servers(), {});
  plan.row_floats = 0;
  rows.next_id.resize(rows.counts.size());
  rows.next_float.resize(rows.counts.size());
  size_t id_cursor = 0;
  for (uint32_t server = 0; server < map.servers(); ++server) {
    ServerShare& share = plan.servers[server];
    share.first_id = id_cursor;
    share.first_float = plan.row_floats;
    for (uint32_t table = 0; table < tables; ++table) {
      const uint32_t dim = layout.table_dims[table];
      const auto counts =
          std::span(rows.counts).subspan((server * tables + table) * partitions, partitions);
      size_t ids_of_group = 0;
      for (size_t p = 0; p < partitions; ++p) {
        const size_t key = (server * tables + table) * partitions + p;
        rows.next_id[key] = id_cursor + ids_of_group;
        rows.next_float[key] = plan.row_floats + ids_of_group * dim;
        ids_of_group += counts[p];
      }
      if (ids_of_group == 0) continue;
      share.groups.push_back({table, dim, {counts.begin(), counts.end()}});
      id_cursor += ids_of_group;
      plan.row_floats += ids_of_group * dim;
    }
    share.id_count = id_cursor - share.first_id;
    share.float_count = plan.row_floats - share.first_float;
  }
}

}  // namespace

size_t BatchLayout::embedding_width() const {
  size_t sum = 0;
  for (size_t f = 0; f < features.size(); ++f) sum += width(f);
  return sum;
}

size_t BatchLayout::max_columns() const {
  size_t sum = 0;
  for (size_t f = 0; f < features.size(); ++f) {
    if (features[f].pooling.kind == Pooling::kMax) sum += dim(f);
  }
  return sum;
}

std::vector<uint32_t> BatchLayout::vector_dims() const {
  std::vector<uint32_t> dims;
  for (size_t f = 0; f < features.size(); ++f) {
    dims.insert(dims.end(), width(f) / dim(f), dim(f));
  }
  return dims;
}

std::vector<FeatureRows> BatchLayout::rows() const {
  std::vector<FeatureRows> rows;
  for (size_t f = 0; f < features.size(); ++f) {
    rows.push_back({.dim = dim(f), .rule = features[f].pooling, .table = features[f].table});
  }
  return rows;
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

void PlanBatch(const CompactBatch& batch, const BatchLayout& layout, const BucketMap& map,
               PlanScratch& rows, BatchPlan& plan) {
  SIMURGH_CHECK_EQ(batch.feature_count(), layout.features.size());
  FindDistinctRows(batch, layout, rows);
  CountRows(layout, map, rows);
  PlaceShares(layout, map, rows, plan);

  plan.ids.reserve(rows.ids.size());  // Exactly: the forward buffer counts the capacity.
  plan.ids.resize(rows.ids.size());
  rows.positions.resize(rows.ids.size());
  for (size_t row = 0; row < rows.ids.size(); ++row) {
    const uint32_t key = rows.keys[row];
    plan.ids[rows.next_id[key]++] = rows.ids[row];
    rows.positions[row] = rows.next_float[key];
    rows.next_float[key] += layout.table_dims[rows.tables[row]];
  }
  plan.row_positions.clear();
  plan.row_positions.reserve(rows.row_of_id.size());
  for (const uint32_t row : rows.row_of_id) plan.row_positions.push_back(rows.positions[row]);
}

BatchLayout LayoutOf(const ClusterConfig& config) {
  BatchLayout layout;
  for (const TableConfig& table : config.tables) layout.table_dims.push_back(table.dim);
  uint32_t column = 0;
  for (const FeatureConfig& feature : config.features) {
    layout.features.push_back(
        {.table = feature.table_index,
         .first_column = column,
         .pooling = {.kind = feature.pooling,
                     .length = feature.processing.max_length,
                     .rows_per_id = std::max(feature.hash_stack.rounds, uint32_t{1})}});
    column += feature.width(layout.table_dims[feature.table_index]);
  }
  return layout;
}

EmbeddingWire WireOf(const ClusterConfig& config) {
  const TrainingConfig& training = config.training;
  const bool is_f16 = training.gradient_precision == VectorPrecision::kF16;
  const BatchLayout layout = LayoutOf(config);
  using Embeddings = TrainingConfig::Embeddings;
  const bool is_cpu = config.nn_worker.device == ComputeDevice::kCpu;
  // In f32, both have the same numbers. A device has memory for one form.
  const bool smaller = training.embeddings == Embeddings::kSmaller && is_cpu &&
                       training.embedding_precision == VectorPrecision::kF32 &&
                       std::ranges::none_of(config.features, [](const FeatureConfig& feature) {
                         return feature.pooling == Pooling::kMax;
                       });
  const bool as_rows = smaller || training.embeddings == Embeddings::kRows;
  return {
      .dims = layout.vector_dims(),
      .embeddings = training.embedding_precision,
      .gradients = training.gradient_precision,
      .gradient_factor = is_f16 ? training.gradient_scale : 1.0F,
      .seed = config.seed,
      .rows = as_rows ? layout.rows() : std::vector<FeatureRows>(),
      .smaller = smaller,
      .row_gradients = as_rows && is_cpu && training.gradient_precision == VectorPrecision::kF32};
}

}  // namespace simurgh
