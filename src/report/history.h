#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace simurgh {

// The file history.jsonl of a model: see src/model/FORMAT.md. Numbers that are not known are NaN.
struct TrainingHistory {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  struct Progress {
    uint64_t step = 0;
    double epoch = kUnknown;    // Counted from 1.
    double seconds = kUnknown;  // Over all starts of the training, as are the samples.
    double samples = kUnknown;
    double loss = kUnknown;
    double auc = kUnknown;
    double rmse = kUnknown;
    double samples_per_s = kUnknown;
    double skipped_steps = kUnknown;
    double waited = kUnknown;  // Share of the time that training waited for embeddings.
    double memory_mib = kUnknown;
    double rate = kUnknown;  // Learning rate of the dense network.
    std::map<std::string, double> table_rates = {};
  };
  struct Evaluation {
    uint64_t step = 0;
    bool is_test = false;
    std::map<std::string, double> metrics;  // Values by name, such as logloss.

    // Returns the loss that training stops by: log loss, or RMSE; NaN without either.
    double loss() const;
  };
  struct Save {
    uint64_t step = 0;
    double seconds = kUnknown;
    double bytes = kUnknown;
    std::map<std::string, double> rows = {};     // Rows of each table.
    std::map<std::string, double> evicted = {};  // Since the servers' start; only tables that do.
  };
  struct End {
    uint64_t step = 0;
    std::string reason;  // epochs, max_steps, early_stopping or stopped; may be another one.
    std::optional<uint64_t> best_step;
  };

  std::vector<Progress> progress;  // In the order of the steps, as are the others.
  std::vector<Evaluation> evaluations;
  std::vector<Save> saves;
  std::optional<End> end;

  bool empty() const { return progress.empty() && evaluations.empty(); }
  // Returns the evaluations of validation rows, or of test rows.
  std::vector<Evaluation> EvaluationsOf(bool tests) const;
};

// Reads the history of a model. Leaves out lines that are no JSON objects, and events that it does
// not know. A file that does not exist is an empty history. Errors: those of FileSystem.
// model: path of the model's folder.
StatusOr<TrainingHistory> ReadHistory(const std::string& model);

// Returns at most `most` elements that are evenly spaced, with the first and the last one.
template <typename T>
std::vector<T> Thinned(const std::vector<T>& all, size_t most) {
  if (all.size() <= most) return all;
  std::vector<T> kept;
  for (size_t i = 0; i < most; ++i) kept.push_back(all[i * (all.size() - 1) / (most - 1)]);
  return kept;
}

}  // namespace simurgh
