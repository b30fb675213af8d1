#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh {

// A row of the training data. Rows are counted from 0 over all files of an epoch; bad rows and
// negatives that are not kept count, too.
struct RowNumber {
  uint32_t epoch = 0;
  uint64_t row = 0;

  auto operator<=>(const RowNumber&) const = default;
};

// A row at which reading can begin, without what is before it. Opaque to all but the reader of the
// format.
struct ReadPlace {
  uint64_t row = 0;  // Of the epoch.
  uint64_t file = 0;
  std::array<uint64_t, 4> at = {};  // In the file.

  bool operator==(const ReadPlace&) const = default;
};

// How readers share the rows of a data set: chunks of `piece_batches` batches, one reader after the
// other.
struct Division {
  uint32_t batch_size = 1;
  uint32_t piece_batches = 1;
  uint32_t shares = 1;

  bool operator==(const Division&) const = default;
  uint32_t ShareOf(uint64_t row) const {
    return static_cast<uint32_t>(row / batch_size / piece_batches % shares);
  }
};

// How far a share has been read.
struct ShareProgress {
  uint32_t share = 0;
  uint32_t files = 0;  // Opened so far.
  RowNumber next;      // The rows of the share before this one have been read.
  uint64_t rows = 0;   // Estimate for all files, exact at their end; 0: unknown.
  ReadPlace place;     // At or before `next`, in its epoch.
};

// Which rows of the training data have been trained on, and where reading continues.
//
// Rows that shares skip make them drift apart, so the rows that were read are no prefix of the
// data. For each share, those before a row are. Readings with other numbers of shares follow each
// other; a row is read if it is read in any of them.
//
// Threads: one owner, or immutable.
class DataPosition {
 public:
  // Nothing has been read.
  DataPosition() : DataPosition(Division()) {}
  explicit DataPosition(const Division& division);

  // The same position, read on with another division. A share begins at next(share), and leaves out
  // rows that IsRead() has. With the same division it begins where that share has stopped.
  DataPosition ContinueWith(const Division& division) const;

  // Adds progress of a share of the present division.
  void Advance(const ShareProgress& progress);
  // Adds that of the same shares on another rank. numbers: its Numbers().
  void Merge(std::span<const uint64_t> numbers);
  // What Merge takes, equally long on all ranks.
  std::vector<uint64_t> Numbers() const;

  const Division& division() const { return readings_.back().division; }
  const RowNumber& next(uint32_t share) const { return readings_.back().next[share]; }
  // The first row that may not have been read. Files opened before it.
  RowNumber first() const;
  uint32_t files() const { return files_; }
  // Where a reader of a share begins, at or before its first row of the epoch that is not read.
  ReadPlace PlaceOf(const Division& division, uint32_t share, uint32_t epoch) const;
  // Forgets where rows are: readers begin with the first file. Rows that are read stay so.
  void ForgetPlaces();
  // The share whose batch follows, where one reader takes batches of all shares in turn.
  uint32_t turn() const { return turn_; }

  bool IsRead(const RowNumber& row) const;
  // The end of the rows that IsRead() has in an epoch.
  uint64_t EndOfRead(uint32_t epoch) const;

  // One line of numbers, then a line for each division, the present one last.
  std::string ToText() const;
  // Takes also texts of version 1, which have no places.
  // Errors: DATA_LOSS for another text.
  static StatusOr<DataPosition> FromText(const std::string& text);

  bool operator==(const DataPosition&) const = default;

 private:
  struct Reading {
    Division division;
    std::vector<RowNumber> next;    // By share.
    std::vector<ReadPlace> places;  // By share.

    bool operator==(const Reading&) const = default;
    explicit Reading(const Division& division)
        : division(division), next(division.shares), places(division.shares) {}
    size_t first_share() const;  // With the least `next`.
    RowNumber min() const { return next[first_share()]; }
    RowNumber max() const;
  };

  // The reading whose first share begins with first().
  const Reading& FirstReading() const;
  // Forgets readings that the last one has passed.
  void Forget();

  uint32_t files_ = 0;
  uint32_t turn_ = 0;
  std::vector<Reading> readings_;  // The last one continues. Divisions differ.
};

}  // namespace simurgh
