#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"

#include "base/status.h"
#include "data/guess/data_guess.h"

namespace simurgh {

struct RowCounts {
  uint64_t rows = 0;       // Rows without bad ones.
  uint64_t positives = 0;  // Rows with a binary label of 1.
  uint64_t bad_rows = 0;
  uint64_t blank_rows = 0;  // Rows of separators only; training would find them bad.
  std::string first_bad;    // File, line and problem of the first bad row.
};

// Reads all rows of a file, and gives `take` those that fit the guess. label: whether it is 1;
// false for a number. Errors: those of reading and of `take`; INVALID_ARGUMENT for other columns,
// no row, or more than 1 % bad rows.
StatusOr<RowCounts> ReadGuessed(const DataGuess& guess, const std::string& path,
                                absl::FunctionRef<Status(std::string_view line, bool label)> take);

// Copies the good rows of a file to another, with the header. Errors: those of ReadGuessed and
// FileWriter.
StatusOr<RowCounts> CopyRows(const DataGuess& guess, const std::string& from,
                             const std::string& to);

// Files of a split. Without `test` there is none.
struct SplitFiles {
  std::string train;
  std::string validation;  // Empty: its rows are in `train`; so are those of `test`.
  std::string test;
};

// Returns the name of a data file without its folder and endings: "clicks" for
// "/data/clicks.csv.gz".
std::string StemOf(const std::string& data);

// Returns the folder for files that are made from a data file: its own or, if that cannot be
// written, the current one. Errors: PERMISSION_DENIED if neither can be written.
StatusOr<std::string> FolderFor(const std::string& data);

// Returns files whose names begin with `prefix`. They have the format of the data file, but CSV for
// Parquet and Arrow data.
SplitFiles PartsOf(const DataGuess& guess, const std::string& data, const std::string& prefix);

struct SplitCounts {
  RowCounts all;
  uint64_t copies = 0;       // Rows that are equal to an earlier one, in the same part.
  uint64_t most_copies = 0;  // Largest number of equal rows.
  std::array<uint64_t, 2> distinct = {};  // Rows that are no copies, one number per label.
  uint64_t every = 0;
  uint64_t train = 0;
  uint64_t validation = 0;
  uint64_t test = 0;
};

// Copies a file's rows to others with its header, one of `every` rows of each label to each of
// `validation` and `test`. The choice depends on the rows' order only; with guess.has_copies, equal
// rows are in one part. With guess.time_column the oldest rows are for `train`, and the newest for
// `test`. Leaves bad rows out.
// Rows of `train` and `validation` are in a random order, since a file may be sorted by its label.
// Requires every > 2.
// Errors: those of ReadGuessed and FileWriter.
StatusOr<SplitCounts> SplitCsv(const DataGuess& guess, const std::string& path,
                               const SplitFiles& files, uint64_t every);

// Calls SplitCsv() with `every` 5 or, for many rows, 10. Clears files.validation if the rows of a
// label are too few for it. Copies are in any part if most rows are copies of few.
StatusOr<SplitCounts> SplitData(DataGuess guess, const std::string& path, SplitFiles& files);

}  // namespace simurgh
