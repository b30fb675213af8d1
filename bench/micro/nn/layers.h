#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/micro/nn/networks.h"

namespace simurgh::bench {

// A layer's way forward, or back.
struct LayerWork {
  std::string name;
  double flop = 0;
  std::function<void()> work;
};

// Of every interaction, cross layer and batch norm of the network, over values of their own; of
// those that are alike, of one.
std::vector<LayerWork> LayersOf(const Subject& subject, size_t samples);

// Does the relus of a step, forward and back, over values of their own.
std::function<void()> Activations(const Subject& subject, size_t samples);

}  // namespace simurgh::bench
