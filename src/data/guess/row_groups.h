#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/guess/data_sample.h"

namespace simurgh {

// How the values of kept rows differ within groups.
struct GroupPairs {
  double pairs = 0;   // Rows of each group but one.
  double differ = 0;  // Of these, the expected number that differ from a random row of the group.
  double chance = 0;  // The share of random pairs of rows that differ.

  // Whether differences are much rarer than by chance, or there is no pair.
  bool AreEqual() const;
  // Whether there are enough pairs to be sure.
  bool AreSurelyEqual() const;
};

// By row: a hash of its group, and of its value.
GroupPairs PairsOf(const std::vector<uint64_t>& groups, const std::vector<uint64_t>& values);

// The column of ids of which another column is a property, such as the user of an age: all rows of
// an id have the same value. Nothing: there is none, or too few rows have the id of another.
std::optional<size_t> OwnerOf(const DataSample& sample, size_t column);

// Whether rows that are equal but for the label have equal labels, so that they are copies. Else
// the label of a row is random, and other rows do not tell it.
bool AreCopies(const DataSample& sample, size_t label);

// The column in which consecutive rows differ while all others are equal, in a large share of the
// rows, as if a list of each row had been written as a row for each value.
std::optional<size_t> SpreadColumn(const DataSample& sample, size_t label);

}  // namespace simurgh
