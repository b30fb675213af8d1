#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "data/guess/retrieval_label.h"
#include "data/guess/retrieval_time.h"

namespace simurgh {

struct RetrievalOptions {
  std::string interactions;        // File with a row for each interaction of a user with an item.
  std::string items;               // File with a row an item; empty: none.
  uint64_t sample_rows = 200'000;  // Rows of a file to look at, > 0.
  // Names of columns of the interactions. Empty: guess.
  std::string user;
  std::string item;
  std::string label;
  std::string positive;  // The text of positive rows, or their least number. Empty: guess.
  std::string weight;
  std::string time;
  // Names of columns of either file, as in GuessOptions.
  std::vector<std::string> ids = {};
  std::vector<std::string> dense = {};
  std::vector<std::string> skip = {};
  bool makes_history = true;  // Make a history of each user if there is none, and rows have times.
};

// A column of the written files.
struct RetrievalColumn {
  size_t source = 0;       // Index in the header of its file.
  std::string name;        // A valid name.
  char separator = '\0';   // Between the ids of a cell; 0: one id.
  std::string reason;      // A phrase for the user.
  uint32_t quantiles = 0;  // Number of ranges of a column of numbers; 0: its cells are ids.
};

// What a column of a file is used as.
struct ColumnNote {
  std::string name;          // In the header.
  std::string written = {};  // Name in the written files; empty: it is not there.
  std::string reason = {};   // A phrase for the user.
};

// Roles of the columns of interactions and items.
struct RetrievalGuess {
  DataConfig interactions;  // Configurations to read the files.
  DataConfig items = {};
  bool has_items = false;
  RetrievalColumn user = {};
  RetrievalColumn item = {};
  std::optional<RetrievalColumn> label;  // None: each row is a positive.
  PositiveRule positives = {};           // With a label.
  std::string label_name = {};           // Name of the label in the written files.
  std::optional<RetrievalColumn> weight;
  std::optional<RetrievalColumn> time;
  TimeRule times = {};                     // With a time.
  std::optional<RetrievalColumn> history;  // List of items.
  bool makes_history = false;              // SplitRetrieval() makes the history, and its separator.
  size_t item_id = 0;                      // Column of the items' ids in their file.
  // Further columns of the items, of their file or else of the interactions.
  std::vector<RetrievalColumn> features = {};
  std::vector<RetrievalColumn> user_features = {};  // Columns that are the same in a user's rows.
  std::vector<ColumnNote> notes = {};               // One per column of the interactions.
  std::vector<ColumnNote> item_notes = {};          // One per column of the file of items.
  std::vector<std::string> warnings = {};
};

// Finds the roles by names, values and the overlap of values with the items' ids. A user without a
// name of its own is the only column left that looks like ids.
// Errors: those of SampleData(); INVALID_ARGUMENT if the user or item cannot be found, a named
// column is not there or has two roles, times cannot be read, and those of PositiveRule::Find().
StatusOr<RetrievalGuess> GuessRetrieval(const RetrievalOptions& options);

struct RetrievalFiles {
  std::string train;
  std::string validation;
  std::string test;
  std::string items;
};

struct RetrievalCounts {
  uint64_t rows = 0;           // All rows of interactions with a user and an item.
  uint64_t bad_rows = 0;       // Rows that cannot be split into cells; they are left out.
  uint64_t without_user = 0;   // Rows without a user; they are left out.
  uint64_t without_item = 0;   // Rows with a user and without an item; they are left out.
  uint64_t without_label = 0;  // Rows whose label is missing; they are left out.
  uint64_t positives = 0;
  uint64_t without_time = 0;   // Positives whose time is missing; they count as the oldest.
  uint64_t unknown_items = 0;  // Rows whose item the file of items lacks; they are left out.
  uint64_t users = 0;
  uint64_t items = 0;
  uint64_t items_without_rows = 0;  // Items without a positive row.
  uint64_t train = 0;
  uint64_t validation = 0;
  uint64_t test = 0;
  bool has_repeats = false;  // Users have the same item in more than a tenth of the rows.
  char separator = '\0';     // Separator of the histories that were made.
};

// Writes the rows with their items' columns, and the items. The last positive of a user with three
// or more is for `test`, the one before for `validation`; without times these are random ones.
// A history that is made has the items of the user's earlier positives, the last one first.
// Memory: the ids and columns of the items, some 100 bytes a user, and UserHistories.
// Errors: those of reading and FileWriter; INVALID_ARGUMENT for an item that is there twice, a bad
// weight, items that most rows do not have in common with their file, or no user with three
// positives.
StatusOr<RetrievalCounts> SplitRetrieval(const RetrievalGuess& guess,
                                         const RetrievalOptions& options,
                                         const RetrievalFiles& files);

// Returns a complete YAML configuration with comments. files: paths as the configuration has them.
// model: folder of checkpoints.
std::string RetrievalConfig(const RetrievalGuess& guess, const RetrievalCounts& counts,
                            const RetrievalFiles& files, const std::string& cluster,
                            const std::string& source, const std::string& model);

}  // namespace simurgh
