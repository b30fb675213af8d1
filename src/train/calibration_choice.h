#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"
#include "collective/collective.h"
#include "config/calibration.h"
#include "config/model_config.h"
#include "data/batch/batch.h"

namespace simurgh {

// Chooses, for each binary label of an update, between the model's calibration and one that was
// fitted to the new rows before training. Training on these rows may correct the network as well,
// and two corrections are one too many. So the predictions of each batch before its step decide.
// Later batches count more.
//
// Threads: one owner.
class CalibrationChoice {
 public:
  // old, fitted: one per label; empty: none.
  CalibrationChoice(std::span<const TaskConfig> tasks, double kept_negatives,
                    std::vector<Calibration> old, std::vector<Calibration> fitted);

  // probabilities: (B, tasks), of the network before the step.
  void Add(const DenseBatch& batch, std::span<const float> probabilities);

  // Returns the better calibration for each label. All ranks call it. Errors: of the collective.
  StatusOr<std::vector<Calibration>> Choose(Collective& collective) const;

 private:
  // Adds the log losses of a batch with these calibrations, by label.
  void AddLosses(const DenseBatch& batch, std::span<const Calibration> calibrations,
                 std::span<double> sums);

  const std::span<const TaskConfig> tasks_;
  const double kept_negatives_;
  std::vector<Calibration> old_;
  std::vector<Calibration> fitted_;
  double steps_ = 0;
  std::vector<float> logits_;
  std::vector<float> predictions_;
  std::vector<double> sums_;  // Losses by label: with the old ones, then with the fitted ones.
};

}  // namespace simurgh
