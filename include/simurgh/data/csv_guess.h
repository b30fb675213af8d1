#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"

#include "simurgh/base/status.h"
#include "simurgh/config/data_config.h"

namespace simurgh {

// Guesses of a column's role, from its name and its cells.
struct ColumnGuess {
  ColumnConfig config;    // With a valid and unique name.
  std::string reason;     // A phrase for the user.
  uint64_t distinct = 0;  // id: values; about 2 % off above 4,096. A lower bound unless all rows
                          // were looked at.
  std::vector<std::string> vocabulary;  // id: all values, if they are few; empty: hash them.
  bool is_also_id = false;              // dense: few values, useful as a category, too.
  uint32_t quantiles = 0;  // dense: ranges that are useful as a category, too; 0: none.
};

struct CsvGuess {
  const ColumnGuess& label() const;  // The only label column.

  char separator = ',';
  std::vector<std::string> missing_values;
  std::vector<ColumnGuess> columns;  // In the order of the file.
  std::vector<std::string> header;   // Names in the file.
  std::string header_line;
  uint64_t rows = 0;      // Rows looked at.
  bool is_whole = false;  // There are no others.
};

// Looks at the header and the first rows of a CSV file, plain, gzip or zstd. label: the name of the
// label column; empty: guess it. max_rows > 0: rows to look at.
// Errors: of reading; INVALID_ARGUMENT for a file that is empty, no text, or without header, for
// quotes over lines, and if no label is found, with place and remedy.
StatusOr<CsvGuess> GuessCsv(const std::string& path, const std::string& label, uint64_t max_rows);

struct RowCounts {
  uint64_t rows = 0;       // Without bad rows.
  uint64_t positives = 0;  // Of a binary label.
  uint64_t bad_rows = 0;
  std::string first_bad;  // File, line and problem.
};

// Reads all rows of a file, and gives `take` those that fit the guess. label: whether it is 1;
// false for a number. Errors: of reading and of `take`; INVALID_ARGUMENT for other columns, no row,
// or more than 1 % bad rows.
StatusOr<RowCounts> ReadGuessed(const CsvGuess& guess, const std::string& path,
                                absl::FunctionRef<Status(std::string_view line, bool label)> take);

// Files of a split. Without `test` there is none.
struct SplitFiles {
  std::string train;
  std::string validation;  // Empty: its rows are in `train`; so are those of `test`.
  std::string test;
};

struct SplitCounts {
  RowCounts all;
  uint64_t train = 0;
  uint64_t validation = 0;
  uint64_t test = 0;
};

// Copies a file's rows to others with its header, one of `every` rows of each label to each of
// `validation` and `test`. The choice depends on the rows' order only. Leaves bad rows out.
// Requires every > 2.
// Errors: as ReadGuessed, and of FileWriter.
StatusOr<SplitCounts> SplitCsv(const CsvGuess& guess, const std::string& path,
                               const SplitFiles& files, uint64_t every);

struct StarterOptions {
  std::string cluster;     // Name of the cluster.
  std::string source;      // The file that was looked at, for a comment.
  std::string train;       // Paths as the configuration has them.
  std::string validation;  // Empty: none; training then has a fixed number of epochs.
  std::string test;
  std::string model;  // The folder of checkpoints.
  uint64_t train_rows = 0;
  bool has_bad_rows = false;           // In the files of train and test.
  std::array<uint16_t, 6> ports = {};  // On the loopback interface.
};

// A complete YAML configuration with comments that trains on the columns of a guess.
std::string StarterConfig(const CsvGuess& guess, const StarterOptions& options);

}  // namespace simurgh
