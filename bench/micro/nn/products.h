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
  std::string tower;  // Of a network that has several.

  double flop() const { return 2.0 * static_cast<double>(samples * inputs * outputs); }
  std::string name() const;
};

// The products of a training step's linear layers. Of a tower's inputs nobody needs the gradient of
// the dense columns, but where there are others these are most, so that all are counted.
std::vector<Product> ProductsOf(const Subject& subject, size_t samples);

// Does the product once, over operands of its own, which are f32 in any case.
std::function<void()> OurProduct(const Product& product, cpu::ProductPrecision precision);

// The same by oneDNN's inner product on so many threads, with operands of that precision laid out
// as it chooses, and results in f32.
std::function<void()> OneDnnProduct(const Product& product, cpu::ProductPrecision precision,
                                    uint32_t threads);

}  // namespace simurgh::bench
