#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/guess/data_sample.h"

namespace simurgh {

// Counts of kept rows whose values differ within groups.
struct GroupPairs {
  double pairs = 0;   // Rows of each group but one.
  double differ = 0;  // Expected number of `pairs` that differ from a random row of their group.
  double chance = 0;  // The share of random pairs of rows that differ.

  // Returns whether differences are much rarer than by chance, or there is no pair.
  bool AreEqual() const;
  // Returns whether AreEqual() holds, with enough pairs to be sure.
  bool AreSurelyEqual() const;
};

// Compares the rows of each group. groups, values: a hash of the group, and of the value, per row.
GroupPairs PairsOf(const std::vector<uint64_t>& groups, const std::vector<uint64_t>& values);

// Returns the column of ids of which `column` is a property, such as the user of an age: all rows
// of an id have the same value. Nothing: there is none, or too few rows share an id.
std::optional<size_t> OwnerOf(const DataSample& sample, size_t column);

// Returns whether rows that are equal but for the label have equal labels, so that they are copies.
// Otherwise the label of a row is random, and other rows do not tell it.
bool AreCopies(const DataSample& sample, size_t label);

// Returns the column in which consecutive rows differ while all others are equal, in a large share
// of the rows, as if a list of each row had been written as a row for each value.
std::optional<size_t> SpreadColumn(const DataSample& sample, size_t label);

}  // namespace simurgh
