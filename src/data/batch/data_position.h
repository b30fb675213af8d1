#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

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

// A row of a partition of a stream.
struct RecordPlace {
  uint64_t offset = 0;  // Of the record.
  uint64_t row = 0;     // In the record.

  RecordPlace() = default;
  RecordPlace(uint64_t offset, uint64_t row = 0) : offset(offset), row(row) {}
  auto operator<=>(const RecordPlace&) const = default;
};

// Where a stream is read on: by "topic/partition" the next row.
using StreamOffsets = std::map<std::string, RecordPlace, std::less<>>;

// Whether a partition has a name that OffsetsText() can write: "topic/0".
bool IsPartitionName(std::string_view name);

// Raises offsets to those of `more`.
void Advance(StreamOffsets& offsets, const StreamOffsets& more);

// "clicks/0:17,clicks/1:4:250", with the row if it is not the first of its record; empty without
// partitions.
std::string OffsetsText(const StreamOffsets& offsets);
// Errors: DATA_LOSS for another text.
StatusOr<StreamOffsets> OffsetsFromText(const std::string& text);

// How far a share has been read.
struct ShareProgress {
  uint32_t share = 0;
  uint32_t files = 0;  // Opened so far.
  RowNumber next;      // The rows of the share before this one have been read.
  uint64_t rows = 0;   // Estimate for all files, exact at their end; 0: unknown.
  ReadPlace place;     // At or before `next`, in its epoch.
  // Of a stream: of all partitions of the share. Empty for files, and if nothing has changed.
  StreamOffsets offsets = {};
};

// Which rows of the training data have been trained on, and where reading continues.
//
// Rows that shares skip make them drift apart, so the rows that were read are no prefix of the
// data. For each share, those before a row are. Readings with other numbers of shares follow each
// other; a row is read if it is read in any of them.
//
// The records of a stream are read if they are before the offset of their partition, whatever the
// shares; rows then only count.
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
  // Offsets of a stream, of this rank and of others.
  const StreamOffsets& offsets() const { return offsets_; }
  void Merge(const StreamOffsets& offsets) { simurgh::Advance(offsets_, offsets); }

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

  // One line of numbers, one of a stream's offsets, if there are any, then a line for each
  // division, the present one last.
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
  StreamOffsets offsets_;
  std::vector<Reading> readings_;  // The last one continues. Divisions differ.
};

}  // namespace simurgh
