#include "data/process/list_length.h"

#include <cstddef>

namespace simurgh {

namespace {

template <typename T>
void Fit(const ProcessingConfig& config, T padding, std::vector<T>& ids) {
  const size_t length = config.max_length;
  if (length == 0) return;
  if (ids.size() > length) {
    const auto excess = static_cast<std::ptrdiff_t>(ids.size() - length);
    if (config.keep == ProcessingConfig::Keep::kLast) {
      ids.erase(ids.begin(), ids.begin() + excess);
    } else {
      ids.resize(length);
    }
  }
  if (config.pad) ids.resize(length, padding);
}

}  // namespace

void FitLength(const ProcessingConfig& config, uint64_t padding, std::vector<uint64_t>& ids) {
  Fit(config, padding, ids);
}

void FitLength(const ProcessingConfig& config, float padding, std::vector<float>& weights) {
  Fit(config, padding, weights);
}

}  // namespace simurgh
