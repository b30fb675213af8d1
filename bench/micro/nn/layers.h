#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/micro/nn/networks.h"

namespace simurgh::bench {

// The forward or backward pass of a layer.
struct LayerWork {
  std::string name;
  double flop = 0;
  std::function<void()> work;
};

// The passes of the network's interactions, cross layers and batch norms, on random values; one of
// several equal layers.
std::vector<LayerWork> LayersOf(const Subject& subject, size_t samples);

// Computes a step's relus, forward and backward, on random values.
std::function<void()> Activations(const Subject& subject, size_t samples);

}  // namespace simurgh::bench
