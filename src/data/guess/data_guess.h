#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "config/feature_config.h"

namespace simurgh {

// A guess of a column's role, from its name and its cells.
struct ColumnGuess {
  ColumnConfig config;  // The column, with a valid and unique name.
  std::string reason;   // A phrase for the user.
  // id: number of values; about 2 % off above 4,096. A lower bound unless all rows were looked at.
  uint64_t distinct = 0;
  bool is_also_id = false;              // dense: few values, useful as a category, too.
  std::vector<double> boundaries = {};  // The limits of the `quantiles` ranges, for a stream.
  bool has_times = false;               // Dates: some have a time.
  uint32_t quantiles = 0;   // dense: ranges that are useful as a category, too; 0: none.
  std::string item = {};    // Lists of seen items: the name of the column with the same values.
  uint32_t max_length = 0;  // Lists of seen items: length of the longest.
};

// Returns whether the first line of a file has the names of its columns.
inline bool HasHeader(const DataConfig& table) { return table.format == DataConfig::Format::kCsv; }

// Returns the name of a format in `data.format`.
const char* FormatName(DataConfig::Format format);

// Two columns whose values tell more of the label together than apart.
struct Cross {
  size_t first = 0;  // Numbers of columns; the smaller one is first.
  size_t second = 0;
  uint64_t distinct = 0;  // Pairs of values.
  uint64_t rows = 0;      // Rows looked at.
  double share = 0;       // Gain of the loss as a share of a constant's.
};

struct DataGuess {
  const ColumnGuess& label() const;  // Returns the only label column.

  DataConfig table;  // Configuration to read the rows of the file.
  char separator = ',';
  std::vector<std::string> missing_values;
  std::vector<ColumnGuess> columns;  // Columns in the order of the file.
  std::vector<std::string> header;   // Names in the file.
  std::string header_line;
  uint64_t rows = 0;          // Rows looked at.
  bool is_whole = false;      // The file has no other rows.
  std::string group_feature;  // Feature whose values group the rows for their AUC, or empty.
  std::optional<size_t> time_column;  // Column by whose times the rows are split.
  double constant_loss = 0;           // Loss of a constant prediction; reasons have the others.
  bool has_copies = false;     // Whether equal rows, if there are any, are copies of one another.
  std::vector<Cross> crosses;  // The best one is first.
  std::string spread_column;   // Rows are repeated with other values of it; empty: there is none.
};

// Returns the command that chooses a column of the header as the label, for messages.
using LabelCommand = std::function<std::string(const std::string& column)>;

struct GuessOptions {
  uint64_t max_rows = 200'000;  // Rows to look at, > 0.
  // Names of columns in the header. Empty: guess.
  std::string label;
  std::string positive;  // The text that means label 1.
  std::string weight;
  std::string group;
  std::string time;  // Column by whose times the rows are split; it is no feature.
  std::vector<std::string> ids;
  std::vector<std::string> dense;
  std::vector<std::string> skip;
  bool is_for_stream = false;  // The configuration is for a stream, which has no statistics.
  LabelCommand label_command = [](const std::string& column) { return "--label " + column; };
};

// Looks at the first rows of a file of any format that FindTable() finds, plain, gzip or zstd.
// Errors: those of reading; INVALID_ARGUMENT for a file that is empty, no text, or without header,
// for quotes over lines, if no label or no named column is found, and for too many columns of ids,
// with place and remedy.
StatusOr<DataGuess> GuessData(const std::string& path, const GuessOptions& options);

struct StarterOptions {
  std::string cluster;     // Name of the cluster.
  std::string source;      // The file that was looked at, for a comment.
  std::string train;       // Paths as the configuration has them.
  std::string validation;  // Empty: none; training then has a fixed number of epochs.
  std::string test;
  // Kafka's brokers, "host:port". None: train on files.
  std::vector<std::string> brokers;
  std::vector<std::string> topics;
  std::string model;  // The folder of checkpoints.
  uint64_t train_rows = 0;
  uint64_t max_features = kMaxFeatures;  // Numbers are ids, too, as long as features are left.
  bool has_bad_rows = false;             // The files of train or test have bad rows.
  std::array<uint16_t, 6> ports = {};    // Ports on the loopback interface.
};

// Returns a complete YAML configuration with comments that trains on the columns of a guess.
std::string StarterConfig(const DataGuess& guess, const StarterOptions& options);

}  // namespace simurgh
