#include "tests/simulation/plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/hash.h"

namespace simurgh::simulation {
namespace {

TableConfig TableOf(uint32_t index, Random& random, bool evicts, uint32_t ids, uint32_t slots) {
  TableConfig table;
  table.name = absl::StrCat("t", index);
  table.dim = kDim;
  // Shares of slots; the smallest table with evictions has room for one batch in each.
  table.capacity_rows = evicts ? ids / 2 + slots * 4 : uint64_t{ids} * slots;
  table.initializer = {.low = -0.5F, .high = 0.5F};
  table.optimizer.kind = random.Below(2) == 0 ? SparseOptimizerConfig::Kind::kAdagrad
                                              : SparseOptimizerConfig::Kind::kAdam;
  table.optimizer.learning_rate = 0.05F;
  return table;
}

}  // namespace

Plan::Plan(uint64_t seed) {
  Random random(Mix64(seed ^ 0x51311));
  const auto between = [&](uint64_t low, uint64_t high) {
    return static_cast<uint32_t>(low + random.Below(high - low + 1));
  };
  ranks = between(1, 2);
  epochs = between(1, 3);
  const uint32_t batch = between(2, 6);
  rows = between(12, 60);
  ids = between(10, 60);
  division = {.batch_size = batch, .piece_batches = between(1, 2), .shares = ranks};
  evicts = ranks == 1 && random.Below(4) == 0;
  moves_rows = !evicts && random.Below(2) == 0;
  config.seed = seed + 1;
  config.embedding_ps.instances.resize(between(1, 3));
  config.embedding_ps.partitions = between(1, 2);
  config.nn_worker.instances.resize(ranks);
  config.training.mode =
      random.Below(3) == 0 ? TrainingConfig::Mode::kSync : TrainingConfig::Mode::kHybrid;
  config.training.staleness = is_sync() ? 1 : between(1, 4);
  config.training.reproducible = true;
  config.training.batch_size = batch;
  config.training.epochs = epochs;
  config.training.drop_last = false;
  config.training.retry_deadline = std::chrono::milliseconds(3'000);
  config.training.loader_queue_batches = between(1, 6);
  config.checkpoint.directory = kModel;
  config.checkpoint.every_steps = between(2, 7);
  // By time and by request: in other modes, the steps of the saves change the result.
  saves_at_any_step = is_sync() && random.Below(2) == 0;
  if (saves_at_any_step) {
    config.checkpoint.every_steps = 0;
    config.checkpoint.every = std::chrono::milliseconds(between(5, 60));
  }
  if (random.Below(4) == 0) config.checkpoint.at_steps = {between(1, 9), between(10, 20)};
  config.checkpoint.keep = between(1, 3);
  config.checkpoint.keep_best = 0;
  config.checkpoint.full_every = between(1, 3);
  config.checkpoint.memory = random.Below(2) == 0 ? 1'000 : 1 << 20;
  const uint32_t slots =
      static_cast<uint32_t>(config.embedding_ps.instances.size()) * config.embedding_ps.partitions;
  const uint32_t tables = between(1, 2);
  for (uint32_t t = 0; t < tables; ++t) {
    config.tables.push_back(TableOf(t, random, evicts, ids, moves_rows ? 6 : slots));
  }
  // A pull that arrives late would make rows anew that have been evicted since.
  if (!evicts && random.Below(2) == 0) {
    lost_one_in = between(30, 200);
    late_one_in = between(30, 200);
    repeated_one_in = between(30, 200);
  }
  // The order in which a loaded table evicts cold rows is that of the checkpoint's files.
  has_cold_rows = !evicts && random.Below(2) == 0;
  if (has_cold_rows) {
    config.embedding_ps.cold_directory = "/cold";
    for (TableConfig& table : config.tables) table.memory_rows = between(1, 8);
    rows *= 3;  // Rows come and go until segments are written anew.
  }
  faults = random.Below(8) == 0 ? 0 : between(1, 8);
  constexpr std::array<uint64_t, 3> kOdds = {300, 1'000, 3'000};
  fault_one_in = kOdds.at(random.Below(kOdds.size()));
  fault_at_file_one_in = kOdds.at(random.Below(kOdds.size())) / 4;
}

std::string Plan::Describe() const {
  return absl::StrCat(is_sync() ? "sync" : "hybrid", " staleness=", staleness(), " ranks=", ranks,
                      " servers=", config.embedding_ps.instances.size(),
                      " partitions=", config.embedding_ps.partitions, " rows=", rows,
                      " batch=", division.batch_size, " epochs=", epochs, " ids=", ids,
                      " tables=", config.tables.size(), " evicts=", evicts, " moves=", moves_rows,
                      " cold=", has_cold_rows, " lossy=", repeats_pulls(),
                      " every_steps=", config.checkpoint.every_steps,
                      " every_ms=", config.checkpoint.every.count(),
                      " keep=", config.checkpoint.keep,
                      " full_every=", config.checkpoint.full_every, " faults=", faults);
}

std::vector<uint64_t> IdsOf(const Plan& plan, uint64_t row, uint32_t table) {
  Random random(Mix64(plan.config.seed * 31 + table) ^ row);
  std::vector<uint64_t> ids(1 + random.Below(3));
  // Some ids are frequent.
  for (uint64_t& id : ids) id = random.Below(1 + random.Below(plan.ids));
  return ids;
}

std::vector<uint64_t> DistinctIds(const Plan& plan, const std::vector<uint64_t>& rows,
                                  uint32_t table) {
  std::vector<uint64_t> distinct;
  for (const uint64_t row : rows) {
    for (const uint64_t id : IdsOf(plan, row, table)) {
      if (std::ranges::find(distinct, id) == distinct.end()) distinct.push_back(id);
    }
  }
  return distinct;
}

void AddDenseGradient(const float* row, std::array<float, kDim>& sum) {
  for (uint32_t d = 0; d < kDim; ++d) sum[d] += row[d];
}

void RowGradientOf(uint64_t step, uint32_t table, uint64_t id, const float* row,
                   const DenseState& dense, float* gradient) {
  for (uint32_t d = 0; d < kDim; ++d) {
    const uint64_t noise = Mix64(Mix64(step * 8 + table) ^ (id * kDim + d));
    gradient[d] =
        0.5F * row[d] + 0.1F * dense.weights[d] + static_cast<float>(noise >> 40) * 0x1p-24F - 0.5F;
  }
}

void UpdateDense(const std::vector<std::array<float, kDim>>& gradients, DenseState& dense) {
  dense.state[0] += 1;
  for (uint32_t d = 0; d < kDim; ++d) {
    float sum = 0;
    for (const auto& one : gradients) sum += one[d];
    dense.state[1 + d] = sum;
    dense.weights[d] = 0.9F * dense.weights[d] + 0.05F * sum;
  }
}

}  // namespace simurgh::simulation
