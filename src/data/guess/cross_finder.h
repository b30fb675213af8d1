#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/guess/data_guess.h"

namespace simurgh {

// Finds crosses in rows with a label. A prediction for each row starts with a sum over all columns,
// and gets that of the best cross, in turn. Each adds what lowers the loss of other rows.
class CrossFinder {
 public:
  static constexpr uint32_t kMissing = 0;  // The value of a missing cell.
  static constexpr size_t kMaxCrosses = 8;

  // is_binary: labels are 0 or 1, otherwise numbers.
  explicit CrossFinder(bool is_binary) : is_binary_(is_binary) {}

  void AddLabel(double label) { labels_.push_back(label); }
  // values: one per row, numbered without gaps. Requires all labels.
  void AddColumn(size_t column, std::vector<uint32_t> values);

  // Returns at most kMaxCrosses, the best one first. Changes the predictions.
  std::vector<Cross> Find();

 private:
  struct Column {
    size_t number;
    std::vector<uint32_t> values;
    double gain = 0;
  };
  // What the mean label of each key adds to the scores.
  struct Step {
    std::vector<double> added;  // One per row.
    double gain = 0;            // Difference of the mean loss.
    double error = 0;           // Standard error of `gain`.
  };
  struct Candidate {
    size_t first;
    size_t second;
    double gain;
  };

  double Prediction(double score) const;
  double Loss(double label, double score) const;
  double MeanLoss() const;
  void StartWithConstant();
  Step StepOf(const std::vector<uint32_t>& keys, size_t distinct) const;
  Step CrossOf(const Candidate& pair, uint64_t& distinct) const;
  void Add(const Step& step);

  bool is_binary_;
  std::vector<double> labels_;
  std::vector<double> scores_;  // Log odds, or numbers; one per row.
  std::vector<Column> columns_;
};

}  // namespace simurgh
