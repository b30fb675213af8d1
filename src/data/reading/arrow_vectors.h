#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace simurgh {

// Writes a Parquet file with the columns `ids` and `vectors`, lists of `dim` f32 numbers.
// integers: the ids; empty: `texts` are the ids. vectors: (N, dim).
// Errors: FAILED_PRECONDITION without libsimurgh_arrow.so; UNAVAILABLE if it cannot write.
Status WriteParquetVectors(const std::string& path, std::span<const int64_t> integers,
                           std::span<const std::string> texts, std::span<const float> vectors,
                           size_t dim);

}  // namespace simurgh
