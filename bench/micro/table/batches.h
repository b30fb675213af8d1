#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace simurgh::bench {

enum class Distribution { kUniform, kZipf };

std::string_view NameOf(Distribution distribution);

// One request: distinct rows by number, and their ids.
struct Batch {
  std::vector<uint32_t> rows;
  std::vector<uint64_t> ids;
};

// Ids differ from row numbers, and popularity is independent of the position of a row.
uint64_t IdOf(uint64_t number);

// Returns `count` batches of `size` distinct rows out of 0 to rows - 1, drawn uniformly or by
// Zipf's law with exponent 1.05. Requires that a batch is a small part of the rows.
std::vector<Batch> DrawBatches(Distribution distribution, uint64_t rows, size_t size, size_t count,
                               uint64_t seed);

}  // namespace simurgh::bench
