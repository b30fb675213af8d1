#include "tests/simulation/oracle.h"

#include <algorithm>
#include <memory>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "embedding/bucket_map.h"
#include "table/new_rows.h"
#include "table/partition.h"
#include "table/update_rules.h"
#include "tests/unit/table/row_references.h"
#include "tests/unit/table/whole_requests.h"

namespace simurgh::simulation {
namespace {

using Gradients = std::map<uint64_t, std::array<float, kDim>>;  // By id.

// The rows of a cluster.
class Rows {
 public:
  virtual ~Rows() = default;
  // Returns the rows of the ids: (U, kDim).
  virtual std::vector<float> Pull(uint64_t step, uint32_t table,
                                  const std::vector<uint64_t>& ids) = 0;
  virtual void Push(uint64_t step, uint32_t table, const Gradients& gradients) = 0;
  virtual ExpectedRows Copy() const = 0;
};

// Rows in a map, for tables that evict nothing: independent of tables and partitions.
class MapRows : public Rows {
 public:
  explicit MapRows(const ClusterConfig& config) : config_(config) {}

  std::vector<float> Pull(uint64_t step, uint32_t table,
                          const std::vector<uint64_t>& ids) override {
    std::vector<float> pulled;
    for (const uint64_t id : ids) {
      const auto [place, is_new] = rows_.try_emplace({table, id});
      ExpectedRow& row = place->second;
      if (is_new) row.values = NewRow(config_.tables[table], id);
      ++row.uses;
      row.recency = step + 1;
      pulled.insert(pulled.end(), row.values.begin(), row.values.begin() + kDim);
    }
    return pulled;
  }

  void Push(uint64_t /*step*/, uint32_t table, const Gradients& gradients) override {
    const RowUpdateParameters parameters = ParametersOf(config_.tables[table]);
    for (const auto& [id, gradient] : gradients) {
      UpdateRowReference(parameters, {rows_.at({table, id}).values.data(), gradient.data()});
    }
  }

  ExpectedRows Copy() const override { return rows_; }

 private:
  std::vector<float> NewRow(const TableConfig& table, uint64_t id) const {
    const RowUpdateParameters parameters = ParametersOf(table);
    std::vector<float> row(kDim + StateShapeOf(parameters.rule).floats(kDim));
    InitializeState(parameters, std::span(row).subspan(kDim));
    const Initializer::NewWeights weights = {id, row.data()};
    Initializer(table.initializer, table.name, table.dim, config_.seed).Fill({&weights, 1});
    return row;
  }

  const ClusterConfig& config_;
  ExpectedRows rows_;
};

// Rows in partitions that nothing disturbs, for tables that evict: which row goes is tested
// elsewhere, and here only that a recovered run evicts the same.
class PartitionRows : public Rows {
 public:
  explicit PartitionRows(const ClusterConfig& config)
      : map_(static_cast<uint32_t>(config.embedding_ps.instances.size()),
             config.embedding_ps.partitions) {
    std::vector<TableConfig> tables = config.tables;
    for (TableConfig& table : tables) {
      table.capacity_rows = (table.capacity_rows + map_.slots() - 1) / map_.slots();
      rates_.push_back(table.optimizer.learning_rate);
    }
    for (uint32_t slot = 0; slot < map_.slots(); ++slot) {
      partitions_.push_back(Partition::Create(tables, config.seed).value());
    }
  }

  std::vector<float> Pull(uint64_t step, uint32_t table,
                          const std::vector<uint64_t>& ids) override {
    std::vector<float> pulled(ids.size() * kDim);
    for (uint32_t slot = 0; slot < map_.slots(); ++slot) {
      std::vector<uint64_t> own;
      std::vector<size_t> places;
      for (size_t i = 0; i < ids.size(); ++i) {
        if (map_.SlotOf(ids[i]) != slot) continue;
        own.push_back(ids[i]);
        places.push_back(i);
      }
      std::vector<float> rows(own.size() * kDim);
      const PullGroup group{table, own, {rows.data(), own.size(), kDim}};
      // Every partition gets every pull, which advances its clock.
      (void)testing::PullWhole(*partitions_[slot], LookupMode::kTrain, {.run = 1, .step = step}, 0,
                               {&group, 1});
      for (size_t i = 0; i < places.size(); ++i) {
        std::copy_n(&rows[i * kDim], kDim, &pulled[places[i] * kDim]);
      }
    }
    return pulled;
  }

  void Push(uint64_t step, uint32_t table, const Gradients& gradients) override {
    for (uint32_t slot = 0; slot < map_.slots(); ++slot) {
      std::vector<uint64_t> ids;
      std::vector<float> values;
      for (const auto& [id, gradient] : gradients) {
        if (map_.SlotOf(id) != slot) continue;
        ids.push_back(id);
        values.insert(values.end(), gradient.begin(), gradient.end());
      }
      partitions_[slot]->table(table).Push(ids, {values.data(), ids.size(), kDim}, rates_[table],
                                           step);
    }
  }

  ExpectedRows Copy() const override {
    ExpectedRows all;
    for (const auto& partition : partitions_) {
      for (uint32_t t = 0; t < partition->table_count(); ++t) {
        partition->table(t).ForEachRow([&](const RowContents& row) {
          ExpectedRow& expected = all[{t, row.id}];
          expected.values.assign(row.weights.begin(), row.weights.end());
          expected.values.insert(expected.values.end(), row.state.begin(), row.state.end());
          expected.uses = row.use_count;
          expected.recency = row.recency;
        });
      }
    }
    return all;
  }

 private:
  const BucketMap map_;
  std::vector<float> rates_;
  std::vector<std::unique_ptr<Partition>> partitions_;
};

}  // namespace

Oracle::Oracle(const Plan& plan) {
  Divide(plan);
  Train(plan);
}

void Oracle::Divide(const Plan& plan) {
  const Division& division = plan.division;
  std::vector<std::string> next(plan.ranks, "0:0");
  for (uint32_t epoch = 0; epoch < plan.epochs; ++epoch) {
    std::vector<std::vector<uint64_t>> shares(plan.ranks);
    for (uint64_t row = 0; row < plan.rows; ++row) {
      const uint64_t piece = row / division.batch_size / division.piece_batches;
      shares[piece % plan.ranks].push_back(row);
    }
    for (size_t at = 0;; at += division.batch_size) {
      std::vector<std::vector<uint64_t>> step(plan.ranks);
      bool is_empty = true;
      for (uint32_t rank = 0; rank < plan.ranks; ++rank) {
        const std::vector<uint64_t>& share = shares[rank];
        for (size_t i = at; i < std::min(share.size(), at + division.batch_size); ++i) {
          step[rank].push_back(share[i]);
          next[rank] = absl::StrCat(epoch, ":", share[i] + 1);
          is_empty = false;
        }
      }
      if (is_empty) break;
      steps_.push_back(std::move(step));
      positions_.push_back(absl::StrCat(
          "version=2 files=1 turn=", 1 % plan.ranks, "\nbatch_size=", division.batch_size,
          " piece_batches=", division.piece_batches, " next=", absl::StrJoin(next, ","),
          " places=", absl::StrJoin(std::vector<std::string>(plan.ranks, "0:0:0:0:0:0"), ",")));
    }
  }
}

void Oracle::Train(const Plan& plan) {
  std::unique_ptr<Rows> rows;
  if (plan.evicts) {
    rows = std::make_unique<PartitionRows>(plan.config);
  } else {
    rows = std::make_unique<MapRows>(plan.config);
  }
  const CheckpointConfig& checkpoint = plan.config.checkpoint;
  const auto tables = static_cast<uint32_t>(plan.config.tables.size());
  const auto is_mark = [&](uint64_t step) {
    return step > 0 && (plan.saves_at_any_step || step % checkpoint.every_steps == 0 ||
                        checkpoint.at_steps.contains(step));
  };
  DenseState dense;
  uint64_t samples = 0;
  // By rank and table: the gradients of steps that are pulled and not pushed.
  struct Open {
    std::vector<std::vector<std::vector<uint64_t>>> ids;
    std::vector<std::vector<std::vector<float>>> rows;
  };
  std::map<uint64_t, Open> open;
  uint64_t pushed = 0;
  const auto push = [&] {
    const uint64_t step = pushed++;
    const Open pulled = open.at(step);
    open.erase(step);
    std::vector<std::array<float, kDim>> sums(plan.ranks);
    std::vector<std::vector<Gradients>> gradients(plan.ranks, std::vector<Gradients>(tables));
    for (uint32_t rank = 0; rank < plan.ranks; ++rank) {
      samples += steps_[step][rank].size();
      for (uint32_t t = 0; t < tables; ++t) {
        for (size_t i = 0; i < pulled.ids[rank][t].size(); ++i) {
          const uint64_t id = pulled.ids[rank][t][i];
          const float* row = &pulled.rows[rank][t][i * kDim];
          RowGradientOf(step, t, id, row, dense, gradients[rank][t][id].data());
          AddDenseGradient(row, sums[rank]);
        }
      }
    }
    UpdateDense(sums, dense);
    for (uint32_t t = 0; t < tables; ++t) {
      if (plan.is_sync()) {
        Gradients all;
        for (uint32_t rank = 0; rank < plan.ranks; ++rank) {
          for (const auto& [id, gradient] : gradients[rank][t]) {
            const auto [place, is_new] = all.try_emplace(id, gradient);
            for (uint32_t d = 0; d < kDim && !is_new; ++d) place->second[d] += gradient[d];
          }
        }
        rows->Push(step, t, all);
        continue;
      }
      for (uint32_t rank = 0; rank < plan.ranks; ++rank) rows->Push(step, t, gradients[rank][t]);
    }
  };
  const auto keep = [&](uint64_t step) {
    while (pushed < step) push();
    models_[step] = {rows->Copy(), dense, samples, positions_[step - 1]};
  };
  for (uint64_t step = 0; step < steps_.size(); ++step) {
    // A pull sees the pushes up to step - staleness, and at a mark all of them.
    while (pushed + plan.staleness() <= step) push();
    if (is_mark(step)) keep(step);
    Open& pulled = open[step];
    for (uint32_t rank = 0; rank < plan.ranks; ++rank) {
      std::vector<std::vector<uint64_t>>& ids = pulled.ids.emplace_back();
      std::vector<std::vector<float>>& values = pulled.rows.emplace_back();
      for (uint32_t t = 0; t < tables; ++t) {
        ids.push_back(DistinctIds(plan, steps_[step][rank], t));
        values.push_back(rows->Pull(step, t, ids.back()));
      }
    }
  }
  keep(steps_.size());
}

}  // namespace simurgh::simulation
