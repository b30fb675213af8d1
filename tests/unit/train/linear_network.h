#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>

#include <catch2/catch.hpp>

#include "nn/dense_network.h"

namespace simurgh::testing {

// Linear layers of these widths, over one dense column and a feature of dim 3: what batches of
// FewBatches can have. Each layer is a bucket of gradients where buckets are small enough.
inline std::unique_ptr<DenseNetwork> LinearNetwork(std::initializer_list<uint32_t> widths) {
  constexpr size_t kDim = 3;
  TowerConfig top{.name = "top", .inputs = {"dense", "embeddings"}, .layers = {}};
  for (const uint32_t width : widths) {
    top.layers.push_back({.kind = LayerConfig::Kind::kLinear, .width = width});
  }
  auto network = CreateCpuNetwork(
      {.towers = {top}},
      {.inputs = {.dense_width = 1, .embedding_width = kDim, .features = {{"a", kDim}}}});
  REQUIRE(network.ok());
  return *std::move(network);
}

}  // namespace simurgh::testing
