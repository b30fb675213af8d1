#include "report/labelled_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/hash.h"

namespace simurgh {

LabelledRows PredictedSample::RowsOf(size_t label) const {
  LabelledRows found;
  for (size_t row = 0; row < rows(); ++row) {
    const float value = labels[row * label_count + label];
    if (std::isnan(value) || !(weights[row] > 0)) continue;
    found.labels.push_back(value);
    found.predictions.push_back(predictions[row * label_count + label]);
    found.weights.push_back(weights[row]);
    // Numbers of rows must not meet those of groups, which are hashes.
    found.units.push_back(groups[row] != 0 ? groups[row] : Mix64(row + 1));
    found.places.push_back(static_cast<uint32_t>(row));
  }
  return found;
}

std::vector<uint32_t> OrderOf(std::span<const float> predictions) {
  std::vector<uint32_t> order(predictions.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](uint32_t row) { return std::pair(predictions[row], row); });
  return order;
}

}  // namespace simurgh
