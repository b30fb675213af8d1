#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/guess/evidence.h"
#include "data/guess/kept_rows.h"
#include "data/process/numbers.h"
#include "simurgh/base/status.h"
#include "simurgh/data/csv_guess.h"

namespace simurgh {

// Rows that cannot be used, of one file.
struct BadRows {
  uint64_t count = 0;
  std::string first;  // File, line and problem.

  // Ignores OK.
  void Add(const Status& problem);
  // INVALID_ARGUMENT if more than 1 % of the rows are bad.
  Status Check(uint64_t good_rows) const;
};

// Counts distinct texts: exactly up to kExact, above with a standard error of 2 %.
// Source: Bar-Yossef et al., "Counting distinct elements in a data stream", 2002: the k smallest
// hashes.
class DistinctCounter {
 public:
  static constexpr size_t kExact = 4'096;

  void Add(std::string_view text);
  uint64_t count() const;

 private:
  // The smallest hashes of the texts, kExact + 1 at most, in order.
  std::vector<uint64_t> Smallest() const;

  std::vector<uint64_t> hashes_;  // These, some of them twice, and larger ones.
  uint64_t limit_ = UINT64_MAX;   // Larger ones are not needed.
};

// Lists in the cells of a column, if this separator separates them.
struct ListProfile {
  uint64_t lists = 0;  // Cells with the separator.
  uint64_t values = 0;
  uint64_t fewest = UINT64_MAX;  // Values of a cell.
  uint64_t most = 0;
  DistinctCounter distinct;
};

// What is known of a column after some of its cells.
class ColumnProfile {
 public:
  // Separators of lists that are considered.
  // The first one, kListSeparator, is in lists only.
  static constexpr std::string_view kListSeparators = "\x1f|;, /";
  // Texts are kept up to this number of them.
  static constexpr size_t kMaxValues = 64;

  // separator: of the file.
  void Add(std::string_view cell, char separator);

  std::map<std::string, uint64_t> missing;   // Cells by text that always means a missing one.
  std::map<std::string, uint64_t> doubtful;  // By text that means it among numbers.
  uint64_t filled = 0;                       // All cells but `missing`.
  DistinctCounter distinct;                  // Of filled cells.
  std::map<std::string, uint64_t> values;    // Of filled cells; empty if more than kMaxValues.
  bool has_many_values = false;

  // Of filled cells that are numbers.
  uint64_t numbers = 0;
  uint64_t integers = 0;
  bool has_leading_zeros = false;
  bool is_consecutive = true;  // Each integer is 1 above the previous one.
  double least = 0;
  double greatest = 0;
  uint64_t at_least = 0;  // Those that equal `least`.
  Moments moments;
  Moments log_moments;  // After log1p; of those above -1.
  double cubes = 0;     // Sum of the cubed distances from the mean.

  // Of filled cells that are not numbers, by separator.
  std::array<ListProfile, kListSeparators.size()> lists;

  uint64_t cells() const;
  uint64_t missing_cells() const { return cells() - filled; }
  // Whether all filled cells are numbers, or doubtful.
  bool is_numeric() const;
  // Of the numbers; 0 if they are equal.
  double skewness() const;

 private:
  void AddNumber(double number, std::string_view cell);
  void AddText(std::string_view cell, char separator);

  std::optional<double> last_;
};

// The first rows of a CSV file.
struct CsvSample {
  DataConfig table;  // As FindTable() finds it.
  char separator = ',';
  std::vector<std::string> header;
  std::string header_line;
  std::vector<ColumnProfile> columns;
  KeptRows kept;
  uint64_t rows = 0;
  bool is_whole = false;  // The file has no other rows.
};

// Errors: of reading; INVALID_ARGUMENT with place and remedy for a file that has no rows, no header
// or one column, that is no text, or has quotes over lines, or more than 1 % rows of other lengths.
StatusOr<CsvSample> SampleCsv(const std::string& path, uint64_t max_rows);

// The names between the commas of a text. A name of the header can have commas.
std::vector<std::string> NamesIn(const std::string& text, const std::vector<std::string>& header);

// The column of the header that an option names; a type as in "user_id:token" can be left out.
// Errors: INVALID_ARGUMENT with the header.
StatusOr<size_t> FindColumn(const std::vector<std::string>& header, std::string_view option,
                            const std::string& name);

// The column of the label, by `name` or, if that is empty, by its names and values.
// Errors: INVALID_ARGUMENT with the columns that could be the label.
StatusOr<size_t> FindLabel(const CsvSample& sample, const std::string& name,
                           const LabelCommand& command);

// Whether a column beside the label is known only with it, such as conversion beside click.
bool IsFurtherLabel(const std::string& name, const ColumnProfile& profile);

// Requires a column that FindLabel returned. The column of the guess lacks its name.
ColumnGuess GuessLabel(const ColumnProfile& profile);

// name: in the header. The column of the guess lacks its name.
ColumnGuess GuessColumn(const std::string& name, const ColumnProfile& profile,
                        const Evidence& evidence, bool is_whole);

// The guess of a column whose kind an option names. Errors: INVALID_ARGUMENT for texts as numbers.
StatusOr<ColumnGuess> GuessAs(ColumnConfig::Kind kind, const std::string& name,
                              const ColumnProfile& profile, const Evidence& evidence,
                              bool is_whole);

// Whether numbers are better after log1p.
bool IsLogOf(const ColumnProfile& profile);

}  // namespace simurgh
