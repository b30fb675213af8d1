#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "simurgh/base/random.h"
#include "simurgh/config/table_config.h"
#include "table/simd/uniform_row.h"

namespace simurgh {

// Draws the initial weights of rows. They depend only on seed, table name, id and position, not on
// the order of requests or the number of servers.
//
// Threads: any; immutable.
class Initializer {
 public:
  Initializer(const InitializerConfig& config, std::string_view table, uint32_t dim, uint64_t seed);

  struct NewWeights {
    uint64_t id;
    float* weights;
  };

  // Overwrites D weights of each row.
  // Cost per weight: uniform half a 64-bit draw, normal a logarithm and a cosine, gamma somewhat
  // more, poisson `rate` draws.
  void Fill(std::span<const NewWeights> rows) const;

 private:
  double Draw(Random& random) const;

  InitializerConfig config_;
  uint32_t dim_;
  uint64_t table_seed_;
  UniformRange range_;
};

}  // namespace simurgh
