#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "simurgh/base/random.h"
#include "simurgh/config/table_config.h"
#include "table/simd/uniform_row.h"

namespace simurgh {

// Gives a new row its weights. They depend on seed, table name, id and position alone: not on the
// order of requests nor on how many servers there are.
//
// Threads: any; immutable.
class Initializer {
 public:
  Initializer(const InitializerConfig& config, std::string_view table, uint32_t dim, uint64_t seed);

  // An id and where the weights of its row are to stand.
  struct NewWeights {
    uint64_t id;
    float* weights;
  };

  // Overwrites D weights of each row.
  // Cost: uniform draws 64 bits for two weights; the normal ones take a logarithm and a cosine
  // each, gamma somewhat more, poisson `rate` draws each.
  void Fill(std::span<const NewWeights> rows) const;
  // One row. weights: (D) overwritten.
  void Fill(uint64_t id, std::span<float> weights) const;

 private:
  void FillOne(const NewWeights& row) const;  // Of other numbers than uniform ones.
  uint64_t SeedOf(uint64_t id) const;
  double Draw(Random& random) const;

  InitializerConfig config_;
  uint32_t dim_;
  uint64_t table_seed_;
  UniformRange range_;
};

}  // namespace simurgh
