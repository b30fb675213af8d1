#pragma once

#include <cstddef>
#include <string>

#include "config/model_config.h"

namespace simurgh {

// The columns that a layer computes.
struct LayerShape {
  size_t width = 0;  // 0: the layer cannot read its input, for the reason in `problem`.
  std::string problem = {};
  std::string remedy = {};
};

// Returns the shape of a layer that reads no sequence. width: columns of its input, at least 1;
// tower_width: columns that its tower reads.
LayerShape ShapeOf(const LayerConfig& layer, size_t width, size_t tower_width);

}  // namespace simurgh
