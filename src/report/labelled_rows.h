#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace simurgh {

// Rows with a known value of one label. All vectors have one element per row.
struct LabelledRows {
  std::vector<float> labels;       // 0 or 1, or numbers.
  std::vector<float> predictions;  // Probabilities of label 1, or numbers.
  std::vector<float> weights;      // Above 0.
  // What the bootstrap draws: rows with equal numbers are drawn together.
  std::vector<uint64_t> units;
  std::vector<uint32_t> places;  // Places of the rows in the sample that they are of.

  size_t size() const { return labels.size(); }
};

// The predictions of a sample of an input's rows, for all labels.
struct PredictedSample {
  size_t label_count = 1;
  std::vector<float> labels;       // (rows, labels); NaN: unknown.
  std::vector<float> predictions;  // (rows, labels)
  std::vector<float> weights;      // (rows); at least 0.
  std::vector<uint64_t> groups;    // (rows); 0: in no group.

  size_t rows() const { return weights.size(); }

  void Resize(size_t rows) {
    labels.resize(rows * label_count);
    predictions.resize(rows * label_count);
    weights.resize(rows, 1.0F);
    groups.resize(rows, 0);
  }
  // Returns the rows of a label: those that have it, and a weight above 0.
  LabelledRows RowsOf(size_t label) const;
};

// Returns the indices of rows in the order of their predictions, the lowest first. Rows with equal
// predictions keep their order.
std::vector<uint32_t> OrderOf(std::span<const float> predictions);

}  // namespace simurgh
