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

// A row of the training data. Rows are counted from 0 over all files of an epoch, in the order of
// training; bad rows and negatives that are not kept count, too. In a shuffled epoch, a window has
// the same numbers as in the files, in another order.
struct RowNumber {
  uint32_t epoch = 0;
  uint64_t row = 0;

  auto operator<=>(const RowNumber&) const = default;
};

// A row at which reading can begin, without the rows before it. Only the reader of the format
// interprets it.
struct ReadPlace {
  static constexpr uint64_t kNoFile = ~uint64_t{0};

  uint64_t row = 0;                 // Number of the row in the epoch.
  uint64_t file = 0;                // kNoFile: reading begins with the first file.
  std::array<uint64_t, 4> at = {};  // Place in the file.
  // Number of rows of the shuffled window that begins there, if the data ended before it was full.
  uint64_t window = 0;

  bool operator==(const ReadPlace&) const = default;
};

// Division of a data set's rows among readers: chunks of `piece_batches` batches go to the shares
// in turn.
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
  uint64_t offset = 0;  // Offset of the record in the partition.
  uint64_t row = 0;     // Number of the row in the record.

  RecordPlace() = default;
  RecordPlace(uint64_t offset, uint64_t row = 0) : offset(offset), row(row) {}
  auto operator<=>(const RecordPlace&) const = default;
};

// The next row to read of each partition of a stream. Keys: "topic/partition".
using StreamOffsets = std::map<std::string, RecordPlace, std::less<>>;

// Returns whether a partition has a name that OffsetsText() can write: "topic/0".
bool IsPartitionName(std::string_view name);

// Raises `offsets` to those of `more`.
void Advance(StreamOffsets& offsets, const StreamOffsets& more);

// Returns "clicks/0:17,clicks/1:4:250", with the row if it is not the first of its record; empty
// without partitions.
std::string OffsetsText(const StreamOffsets& offsets);
// Parses an OffsetsText(). Errors: DATA_LOSS for another text.
StatusOr<StreamOffsets> OffsetsFromText(const std::string& text);

// Progress of reading one share.
struct ShareProgress {
  uint32_t share = 0;
  uint32_t files = 0;  // Number of files opened so far.
  RowNumber next;      // The rows of the share before this one have been read.
  uint64_t rows = 0;   // Estimated rows of all files, exact at their end; 0: unknown.
  ReadPlace place;     // A place at or before `next`, in its epoch.
  // Offsets of all partitions of a stream's share. Empty for files, and if nothing has changed.
  StreamOffsets offsets = {};
};

// The rows of the training data that have been trained on, and where reading continues.
//
// Rows that shares skip make them drift apart, so the rows that were read are no prefix of the
// data. For each share, the rows before its `next` have been read. Readings with different
// divisions follow each other; a row has been read if any of them has read it.
//
// A record of a stream has been read if it is before the offset of its partition, whatever the
// shares; row numbers then only count rows.
//
// Threads: one owner, or immutable.
class DataPosition {
 public:
  // Makes a position at which nothing has been read.
  DataPosition() : DataPosition(Division()) {}
  explicit DataPosition(const Division& division);

  // Returns the position for reading on with another division. A share begins at next(share), and
  // leaves out rows for which IsRead() holds. With the same division it begins where that share has
  // stopped.
  DataPosition ContinueWith(const Division& division) const;

  // Adds progress of a share of the present division.
  void Advance(const ShareProgress& progress);
  // Adds progress of the same shares on another rank. numbers: its Numbers().
  void Merge(std::span<const uint64_t> numbers);
  // Returns the argument of another rank's Merge(), equally long on all ranks.
  std::vector<uint64_t> Numbers() const;
  // Returns the offsets of a stream, of this rank and of others.
  const StreamOffsets& offsets() const { return offsets_; }
  void Merge(const StreamOffsets& offsets) { simurgh::Advance(offsets_, offsets); }

  const Division& division() const { return readings_.back().division; }
  const RowNumber& next(uint32_t share) const { return readings_.back().next[share]; }
  // Returns the first row that may not have been read.
  RowNumber first() const;
  // Returns the number of files that have been opened.
  uint32_t files() const { return files_; }
  // Returns the first row that a reader of a share may have to read.
  RowNumber BeginOf(const Division& division, uint32_t share) const;
  // Returns where a reader of a share begins, at or before its first unread row of the epoch. In a
  // shuffled epoch a window begins there.
  ReadPlace PlaceOf(const Division& division, uint32_t share, uint32_t epoch) const;
  // Forgets where rows are, so that readers begin with the first file. Read rows and windows stay
  // so.
  void ForgetPlaces();
  // Returns the rows of a window within which the epoch's rows are shuffled; 0: they are not.
  uint64_t window(uint32_t epoch) const;
  // Returns the windows of the epoch that had fewer rows than window(epoch), as the data ended in
  // them: rows by first row. Rows that the data get later begin another window.
  std::map<uint64_t, uint64_t> short_windows(uint32_t epoch) const;
  // Sets the rows of a window, from the first epoch on of which no row has been read.
  void SetWindow(uint64_t rows);
  // Returns the share whose batch follows, where one reader takes batches of all shares in turn.
  uint32_t turn() const { return turn_; }

  bool IsRead(const RowNumber& row) const;
  // Returns the row of the epoch from which on IsRead() is false.
  uint64_t EndOfRead(uint32_t epoch) const;

  // Returns one line of numbers, one of a stream's offsets, if there are any, then a line for each
  // division, the present one last.
  std::string ToText() const;
  // Parses a ToText(), also of version 1, which has no places, and of positions without windows.
  // Errors: DATA_LOSS for another text.
  static StatusOr<DataPosition> FromText(const std::string& text);

  bool operator==(const DataPosition&) const = default;

 private:
  struct Reading {
    Division division;
    std::vector<RowNumber> next;    // One per share.
    std::vector<ReadPlace> places;  // One per share.

    bool operator==(const Reading&) const = default;
    explicit Reading(const Division& division)
        : division(division), next(division.shares), places(division.shares) {}
    size_t first_share() const;  // Returns the share with the least `next`.
    RowNumber min() const { return next[first_share()]; }
    RowNumber max() const;
  };

  // Returns the reading whose first share begins with first().
  const Reading& FirstReading() const;
  // Forgets readings that the last one has passed.
  void Forget();

  uint32_t files_ = 0;
  uint32_t turn_ = 0;
  StreamOffsets offsets_;
  std::map<uint32_t, uint64_t> windows_;  // Rows of a window, from an epoch on.
  std::vector<Reading> readings_;         // The last one continues. Divisions differ.
};

}  // namespace simurgh
