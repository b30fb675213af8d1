#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "data/guess/data_guess.h"
#include "data/guess/evidence.h"
#include "data/guess/kept_rows.h"
#include "data/processing/numbers.h"

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
  // The share of the texts that the other one has, too.
  double ShareIn(const DistinctCounter& other) const;

 private:
  // The smallest hashes of the texts, kExact + 1 at most, in order.
  std::vector<uint64_t> Smallest() const;

  std::vector<uint64_t> hashes_;  // These, some of them twice, and larger ones.
  uint64_t limit_ = UINT64_MAX;   // Larger ones are not needed.
};

// Lists in the cells of a column, if this separator separates them.
struct ListProfile {
  // Adds a cell that is no number.
  void Add(std::string_view cell, char separator);

  // The share of values that are the first of some lists and not of others, by their number: near 1
  // in lists, whose order is free, and near 0 in names such as `New_York`. Only of blanks and `_`.
  double Mixing() const;

  uint64_t lists = 0;  // Cells with the separator.
  uint64_t values = 0;
  uint64_t fewest = UINT64_MAX;  // Values of a cell.
  uint64_t most = 0;
  uint64_t numbers = 0;   // Values that are.
  uint64_t integers = 0;  // Values that are, also as `3.0`.
  DistinctCounter distinct;

 private:
  // How often a value is the first of several, and not; by its hash, of the first values.
  std::unordered_map<uint64_t, std::array<uint64_t, 2>> places_;
};

// What is known of those cells of a column that are numbers.
struct NumberProfile {
  uint64_t numbers = 0;
  uint64_t integers = 0;  // Also as `3.0`, and those that `mangled` counts.
  uint64_t mangled = 0;   // Long integers in scientific notation, which spreadsheets leave.
  std::string first_mangled;
  bool has_leading_zeros = false;
  bool is_consecutive = true;  // Each integer is 1 above the previous one.
  double least = 0;
  double greatest = 0;
  uint64_t at_least = 0;  // Those that equal `least`.
  Moments moments;
  Moments log_moments;  // After log1p; of those above -1.
  double cubes = 0;     // Sum of the cubed distances from the mean.

  void AddNumber(double number, std::string_view cell, const NumberFormat& format);
  // 0 if the numbers are equal.
  double skewness() const;

 private:
  std::optional<double> last_;
};

// What is known of a column after some of its cells.
class ColumnProfile : public NumberProfile {
 public:
  // Separators of lists that are considered. The first one, kListSeparator, is in lists only.
  static constexpr std::string_view kListSeparators = "\x1f|;,^\x01 /_";
  // Texts are kept up to this number of them.
  static constexpr size_t kMaxValues = 64;

  void Add(std::string_view cell);

  // Chooses the format in which most cells are numbers, and what other cells mean among them. The
  // members of NumberProfile are of the plain format before.
  void Settle();

  std::map<std::string, uint64_t> missing;   // Cells by text that always means a missing one.
  std::map<std::string, uint64_t> doubtful;  // By text that means it among numbers.
  // By text without digits, if there are few such texts; after Settle() only if they are among many
  // numbers.
  std::map<std::string, uint64_t> words;
  uint64_t filled = 0;                     // All cells but `missing`.
  DistinctCounter distinct;                // Of filled cells; 3 and 3.0 are one.
  std::map<std::string, uint64_t> values;  // Of filled cells; empty if more than kMaxValues.
  bool has_many_values = false;
  NumberFormat format;  // Of the numbers.

  NumberProfile dates;     // Days since 1970 of filled cells that are dates, also as `20240131`.
  bool has_times = false;  // Some dates have a time.

  // Of filled cells that are neither numbers nor dates, by separator.
  std::array<ListProfile, kListSeparators.size()> lists;

  uint64_t cells() const;
  uint64_t missing_cells() const { return cells() - filled; }
  // Whether all filled cells are numbers, or mean a missing one among them.
  bool is_numeric() const;
  // The same of dates. Numbers can be dates, too.
  bool are_dates() const;

 private:
  // Another format, until a plain number contradicts it.
  struct Alternative {
    NumberFormat format;
    bool is_possible = true;
    std::optional<NumberProfile> numbers = {};  // None: as in the plain format.
  };

  // Whether the cell is a number in one of them.
  bool AddToAlternatives(std::optional<double> plain, std::string_view cell);
  void AddText(std::string_view cell);

  std::array<Alternative, 6> alternatives_ = {
      {{{'.', ','}}, {{',', '\0'}}, {{',', '.'}}, {{'.', ' '}}, {{',', ' '}}, {{'.', '\''}}}};
  bool has_many_words_ = false;
};

// The guess of a column of dates, if its cells are such and its name does not contradict.
std::optional<ColumnGuess> GuessDates(const std::string& name, const ColumnProfile& profile);

// Dates in another order than those of GuessDates().
struct OtherDates {
  DateOrder order = DateOrder::kYearFirst;  // kYearFirst: there are none, or it is ambiguous.
  bool is_ambiguous = false;
  ColumnGuess guess = {};  // With this order.
};
// Of kept cells. A day above 12 decides.
OtherDates FindOtherDates(const KeptRows& rows, size_t column, const ColumnProfile& profile);

// The first rows of a file.
struct DataSample {
  DataConfig table;  // As FindTable() finds it.
  char separator = ',';
  std::vector<std::string> header;
  std::string header_line;
  std::vector<ColumnProfile> columns;
  // By column: rows that differ from the previous one in this column alone.
  std::vector<uint64_t> only_changes;
  KeptRows kept;
  uint64_t rows = 0;
  bool is_whole = false;  // The file has no other rows.
};

// Errors: of reading; INVALID_ARGUMENT with place and remedy for a file that has no rows, no header
// or one column, that is no text, or has quotes over lines, or more than 1 % rows of other lengths.
StatusOr<DataSample> SampleData(const std::string& path, uint64_t max_rows);

// The names between the commas of a text. A name of the header can have commas.
std::vector<std::string> NamesIn(const std::string& text, const std::vector<std::string>& header);

// The column of the header that an option names; a type as in "user_id:token" can be left out.
// Errors: INVALID_ARGUMENT with the header.
StatusOr<size_t> FindColumn(const std::vector<std::string>& header, std::string_view option,
                            const std::string& name);

// The column of the label, by `name` or, if that is empty, by its names and values.
// Errors: INVALID_ARGUMENT with the columns that could be the label.
StatusOr<size_t> FindLabel(const DataSample& sample, const std::string& name,
                           const LabelCommand& command);

// Whether a column beside the label is known only with it, such as conversion beside click.
bool IsFurtherLabel(const std::string& name, const ColumnProfile& profile);

// Requires a column that FindLabel returned. The column of the guess lacks its name. positive: the
// text of label 1, or empty. Errors: INVALID_ARGUMENT if it is not one of two values.
StatusOr<ColumnGuess> GuessLabel(const ColumnProfile& profile, const std::string& positive);

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
