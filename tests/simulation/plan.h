#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "config/cluster_config.h"
#include "data/batch/data_position.h"
#include "tests/simulation/world.h"

namespace simurgh::simulation {

inline constexpr uint32_t kDim = 4;
inline constexpr char kModel[] = "/model";

// What a seed decides before the run begins.
struct Plan {
  explicit Plan(uint64_t seed);
  std::string Describe() const;

  // The configuration of a start of training. Servers and partitions may change between starts.
  ClusterConfig config;
  uint32_t ranks = 1;
  uint32_t epochs = 1;
  uint32_t rows = 40;  // Of the data, an epoch.
  uint32_t ids = 50;   // Of each table.
  Division division;
  bool evicts = false;         // The tables are smaller than the ids.
  bool has_cold_rows = false;  // Most rows are on disk.
  bool saves_at_any_step = false;
  bool moves_rows = false;  // Starts differ in servers and partitions.

  // The network: on average one of this many requests or answers is lost, late or repeated. 0:
  // none.
  uint64_t lost_one_in = 0;
  uint64_t late_one_in = 0;
  uint64_t repeated_one_in = 0;
  // Whether a pull may be made twice: its rows then have other uses and recencies.
  bool repeats_pulls() const { return lost_one_in + late_one_in + repeated_one_in > 0; }

  uint32_t faults = 0;                  // Deaths and other accidents, at most.
  uint64_t fault_one_in = 1'000;        // Of the events.
  uint64_t fault_at_file_one_in = 200;  // Of the operations on files.

  bool is_sync() const { return config.training.mode == TrainingConfig::Mode::kSync; }
  uint32_t staleness() const { return is_sync() ? 1 : config.training.staleness; }
};

// The ids that a row of the data has in a table.
std::vector<uint64_t> IdsOf(const Plan& plan, uint64_t row, uint32_t table);
// The distinct ids of some rows in a table, by first appearance.
std::vector<uint64_t> DistinctIds(const Plan& plan, const std::vector<uint64_t>& rows,
                                  uint32_t table);

// The dense part of the model. Any error in a row shows up in it.
struct DenseState {
  std::array<float, kDim> weights = {1, -1, 0.5F, 0.25F};
  std::array<float, kDim + 1> state = {};  // The number of steps, and the last gradient.
  bool operator==(const DenseState&) const = default;
};

// The dense gradient of a rank's rows, the gradients of the rows, and the update after the ranks'
// gradients have been added.
void AddDenseGradient(const float* row, std::array<float, kDim>& sum);
void RowGradientOf(uint64_t step, uint32_t table, uint64_t id, const float* row,
                   const DenseState& dense, float* gradient);
void UpdateDense(const std::vector<std::array<float, kDim>>& gradients, DenseState& dense);

}  // namespace simurgh::simulation
