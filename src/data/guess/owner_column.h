#pragma once

#include <cstddef>
#include <optional>

#include "data/guess/csv_sample.h"

namespace simurgh {

// The column of ids of which another column is a property, such as the user of an age: all rows of
// an id have the same value. Nothing: there is none, or too few rows have the id of another.
std::optional<size_t> OwnerOf(const CsvSample& sample, size_t column);

}  // namespace simurgh
