#include "data/encoded/weights.h"

#include <algorithm>
#include <cmath>

namespace simurgh {

bool IsWeighted(std::span<const float> weights) {
  return std::any_of(weights.begin(), weights.end(), [](float weight) { return weight != 1.0F; });
}

Status ReadWeights(ByteReader& in, size_t first, size_t end, std::vector<float>& weights) {
  const auto bytes = in.Raw((end - first) * sizeof(float));
  if (!in.ok()) return absl::InvalidArgumentError("weights are truncated");
  weights.resize(first, 1.0F);
  weights.resize(end);
  const auto read = std::span(weights).subspan(first);
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(read).begin());
  if (!std::all_of(read.begin(), read.end(), [](float weight) { return std::isfinite(weight); })) {
    return absl::InvalidArgumentError("a weight that is not finite");
  }
  return absl::OkStatus();
}

}  // namespace simurgh
