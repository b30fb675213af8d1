#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/micro/nn/networks.h"
#include "nn/cpu/matmul.h"

namespace simurgh::bench {

// One of the three matrix products of a linear layer.
struct Product {
  enum class Kind { kForward, kWeight, kInput };

  Kind kind = Kind::kForward;
  size_t samples = 0;
  size_t inputs = 0;
  size_t outputs = 0;
  std::string tower;  // Empty in a network with one tower.

  double flop() const { return 2.0 * static_cast<double>(samples * inputs * outputs); }
  std::string name() const;
};

// The products of a training step's linear layers. Counts the gradients of all inputs of a tower
// that reads embeddings, though those of its dense columns are not needed.
std::vector<Product> ProductsOf(const Subject& subject, size_t samples);

// Computes the product once, on random f32 operands.
std::function<void()> OurProduct(const Product& product, cpu::ProductPrecision precision);

// The same by oneDNN's inner product, with operands in its preferred layout and results in f32.
std::function<void()> OneDnnProduct(const Product& product, cpu::ProductPrecision precision,
                                    uint32_t threads);

}  // namespace simurgh::bench
