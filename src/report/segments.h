#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "nn/metrics.h"

namespace simurgh {

// Adds sums of other rows.
void AddSums(const PredictionSums& more, PredictionSums& sums);

// The rows of some values of a column.
struct Segment {
  std::string name;  // The value, or a range of numbers.
  bool is_rest = false;
  uint64_t rows = 0;
  std::vector<PredictionSums> sums;  // One per label.
};

// Counts rows by the value of a column, in bounded memory.
//
// Each value is a segment, until there are too many. Then numbers become ranges with about equal
// numbers of rows. Of other values, the half with the fewest rows joins the rest. A value that
// comes back begins a new segment, so that counts of rare values are lower bounds. A value with
// more than 2 / most_values of the rows loses few of them.
//
// Threads: one owner.
class SegmentCounter {
 public:
  struct Options {
    size_t labels = 1;
    size_t most_values = 4'096;  // Values in memory.
    bool are_numbers = false;    // Values are numbers, which can become ranges.
    bool gives_up = false;       // Too many values that are no numbers: the column is given up.
  };

  SegmentCounter(std::string column, const Options& options);

  const std::string& column() const { return column_; }
  // Returns whether the column has been given up. Then Add() has no effect.
  bool has_given_up() const { return has_given_up_; }
  // Returns whether values have joined the rest, so that counts are lower bounds.
  bool has_dropped() const { return has_dropped_; }

  // Adds a row. sums: of the row, one per label. place: the row's place in a sample, where it
  // replaces an earlier row, for SegmentOf(); none: it is not in the sample.
  void Add(std::string_view value, std::span<const PredictionSums> sums,
           std::optional<size_t> place);

  // Ends the count. Returns at most `most` segments with the most rows, then the rest if there is
  // one. Ranges are in order. Must be the last call but SegmentOf().
  std::vector<Segment> Finish(size_t most);
  // Returns the index in the result of Finish() of the row at a place of the sample.
  size_t SegmentOf(size_t place) const;

 private:
  struct Entry {
    Segment segment;
    uint32_t number = 0;
    double low = 0;  // Least number of a range.
  };

  // Returns the entry of a value; a new one if need be. Null: the column is given up.
  Entry* EntryOf(std::string_view value);
  void MakeRanges();
  void DropRareValues();
  uint32_t NewNumber();
  // Gives numbers anew, so that forward_ is short.
  void Renumber();
  // Joins an entry with another one.
  void Join(const Entry& entry, Entry& into);
  size_t RangeOf(double value) const;

  const std::string column_;
  const Options options_;
  absl::flat_hash_map<std::string, size_t> places_;  // Value -> index in entries_.
  std::vector<Entry> entries_;
  Entry rest_;
  bool has_ranges_ = false;
  bool has_given_up_ = false;
  bool has_dropped_ = false;
  std::vector<uint32_t> forward_;  // The number that each number has joined; else itself.
  std::vector<uint32_t> sample_;   // Numbers of the sample's rows.
  std::vector<size_t> indices_;  // Index in the result of each number that has not joined another.
};

}  // namespace simurgh
