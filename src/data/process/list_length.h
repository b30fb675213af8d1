#pragma once

#include <cstddef>
#include <vector>

#include "simurgh/config/feature_config.h"

namespace simurgh {

// Cuts a list to config.max_length and, with config.pad, appends `padding` up to that length. Does
// nothing if max_length is 0.
template <typename T>
void FitLength(const ProcessingConfig& config, T padding, std::vector<T>& list) {
  const size_t length = config.max_length;
  if (length == 0) return;
  if (list.size() > length && config.keep == ProcessingConfig::Keep::kLast) {
    list.erase(list.begin(), list.end() - static_cast<std::ptrdiff_t>(length));
  }
  if (list.size() > length || config.pad) list.resize(length, padding);
}

}  // namespace simurgh
