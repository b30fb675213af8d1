#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/cluster_config.h"
#include "config/training_config.h"
#include "train/trainer.h"

namespace simurgh {

// Returns a warning for each label whose probabilities are worse than the share of positives for
// every row, or whose numbers are worse than their mean. result: result of the test.
std::vector<std::string> LogLossWarnings(const EvaluationResult& result,
                                         const std::vector<std::string>& labels);

// Returns warnings about the rows of an update. result: result of its test before the training.
std::vector<std::string> NewRowsWarnings(const EvaluationResult& result,
                                         const ClusterConfig& config);

// Returns the columns of ids most of which training has not seen, with the share of unseen ids.
// Leaves out columns where that is no surprise.
std::vector<std::pair<std::string, double>> UnseenColumns(const EvaluationResult& result,
                                                          const ClusterConfig& config);

// The beginning of ValidationCourse's warning.
constexpr char kDriftWarning[] = "training and validation drift apart";

// The losses of the training rows and the validation rows, evaluation by evaluation.
//
// Threads: one owner.
class ValidationCourse {
 public:
  explicit ValidationCourse(const TrainingConfig& training)
      : epochs_of_evaluation_(training.evaluate_every_steps == 0 ? training.evaluate_every_epochs
                                                                 : 0),
        has_early_stopping_(training.early_stopping.patience > 0) {}

  // epochs: number of epochs completed by the training that continues.
  void StartAfter(uint32_t epochs) { first_epoch_ = epochs; }
  void AddStep(const TrainObserver::Step& step);
  void AddEvaluation(uint64_t step, const EvaluationResult& result);

  // Returns a warning if the model of this step predicts the validation rows clearly worse than the
  // model of an earlier evaluation, although the training loss has fallen. Else empty.
  std::string DriftAt(uint64_t step) const;

 private:
  struct Point {
    uint64_t step;
    double train;       // Mean loss since the previous evaluation.
    double validation;  // Log loss, calibrated; the mean loss of a label of numbers.
  };

  // Returns "epoch 3" or "step 400".
  std::string NameOf(const Point& point) const;

  const uint32_t epochs_of_evaluation_;
  const bool has_early_stopping_;
  uint32_t first_epoch_ = 0;
  double loss_ = 0;     // Sum of losses since the last evaluation.
  double samples_ = 0;  // Number of samples since the last evaluation.
  std::vector<Point> points_;
};

}  // namespace simurgh
