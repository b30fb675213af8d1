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
#include "data/guess/table_rows.h"
#include "data/processing/numbers.h"

namespace simurgh {

// Rows of one file that cannot be used.
struct BadRows {
  uint64_t count = 0;
  std::string first;  // File, line and problem of the first one.

  // Adds a bad row; ignores OK.
  void Add(const Status& problem);
  // Returns INVALID_ARGUMENT if more than 1 % of the rows are bad.
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
  // Returns the share of the texts that `other` has, too.
  double ShareIn(const DistinctCounter& other) const;

 private:
  // Returns the smallest hashes of the texts, kExact + 1 at most, in order.
  std::vector<uint64_t> Smallest() const;

  std::vector<uint64_t> hashes_;  // Smallest(), some of them twice, and larger hashes.
  uint64_t limit_ = UINT64_MAX;   // Hashes from here on are not needed.
};

// Lists in the cells of a column, if this separator separates them.
struct ListProfile {
  // Adds a cell that is no number.
  void Add(std::string_view cell, char separator);

  // Returns the share of values that are the first of some lists and not of others, by their
  // number: near 1 in lists, whose order is free, and near 0 in names such as `New_York`. Requires
  // a blank or `_` as the separator.
  double Mixing() const;

  uint64_t lists = 0;  // Cells with the separator.
  uint64_t values = 0;
  uint64_t fewest = UINT64_MAX;  // Fewest values of a cell.
  uint64_t most = 0;             // Most values of a cell.
  uint64_t numbers = 0;          // Values that are numbers.
  uint64_t integers = 0;         // Values that are integers, also as `3.0`.
  DistinctCounter distinct;

 private:
  // Hash of a value, of the first ones -> how often it is the first of several, and how often not.
  std::unordered_map<uint64_t, std::array<uint64_t, 2>> places_;
};

// Profile of those cells of a column that are numbers.
struct NumberProfile {
  uint64_t numbers = 0;
  uint64_t integers = 0;  // Integers, also as `3.0`, and those that `mangled` counts.
  uint64_t mangled = 0;   // Long integers in scientific notation, which spreadsheets leave.
  std::string first_mangled;
  bool has_leading_zeros = false;
  bool is_consecutive = true;  // Each integer is 1 above the previous one.
  double least = 0;
  double greatest = 0;
  uint64_t at_least = 0;  // Numbers equal to `least`.
  Moments moments;
  Moments log_moments;  // Moments of log1p of the numbers above -1.
  double cubes = 0;     // Sum of the cubed distances from the mean.

  void AddNumber(double number, std::string_view cell, const NumberFormat& format);
  // Returns 0 if the numbers are equal.
  double skewness() const;

 private:
  std::optional<double> last_;
};

// Profile of a column after some of its cells.
class ColumnProfile : public NumberProfile {
 public:
  // Separators of lists that are considered. The first one, kListSeparator, is in lists only.
  static constexpr std::string_view kListSeparators = "\x1f|;,^\x01 /_";
  // Texts are kept up to this number of them.
  static constexpr size_t kMaxValues = 64;

  void Add(std::string_view cell);

  // Chooses the format in which most cells are numbers, and the meaning of other cells among them.
  // Until then, the members of NumberProfile are for the plain format.
  void Settle();

  // Text that always means a missing cell -> number of cells.
  std::map<std::string, uint64_t> missing;
  // Text that means a missing cell among numbers -> number of cells.
  std::map<std::string, uint64_t> doubtful;
  // Text without digits -> number of cells, if there are few such texts; after Settle() only if
  // they are among many numbers.
  std::map<std::string, uint64_t> words;
  uint64_t filled = 0;       // All cells but `missing`.
  DistinctCounter distinct;  // Counts texts of filled cells; 3 and 3.0 are one.
  // Text of a filled cell -> number of cells; empty if there are more than kMaxValues.
  std::map<std::string, uint64_t> values;
  bool has_many_values = false;
  NumberFormat format;  // Format of the numbers.

  NumberProfile dates;     // Days since 1970 of filled cells that are dates, also as `20240131`.
  bool has_times = false;  // Some dates have a time.

  // Profiles of filled cells that are neither numbers nor dates, one per separator.
  std::array<ListProfile, kListSeparators.size()> lists;

  uint64_t cells() const;
  uint64_t missing_cells() const { return cells() - filled; }
  // Returns whether all filled cells are numbers, or mean a missing one among them.
  bool is_numeric() const;
  // Returns whether all filled cells are dates, or mean a missing one. Numbers can be dates, too.
  bool are_dates() const;

 private:
  // Another format, until a plain number contradicts it.
  struct Alternative {
    NumberFormat format;
    bool is_possible = true;
    std::optional<NumberProfile> numbers = {};  // None: the same as in the plain format.
  };

  // Adds the cell to the alternatives. Returns whether it is a number in one of them.
  bool AddToAlternatives(std::optional<double> plain, std::string_view cell);
  void AddText(std::string_view cell);

  std::array<Alternative, 6> alternatives_ = {
      {{{'.', ','}}, {{',', '\0'}}, {{',', '.'}}, {{'.', ' '}}, {{',', ' '}}, {{'.', '\''}}}};
  bool has_many_words_ = false;
};

// Returns the guess of a column of dates, if its cells are dates and its name does not contradict.
std::optional<ColumnGuess> GuessDates(const std::string& name, const ColumnProfile& profile);

// Dates in another order than those of GuessDates().
struct OtherDates {
  DateOrder order = DateOrder::kYearFirst;  // kYearFirst: there are none, or it is ambiguous.
  bool is_ambiguous = false;
  ColumnGuess guess = {};  // Guess with this order.
};
// Finds dates in kept cells. A day above 12 decides.
OtherDates FindOtherDates(const KeptRows& rows, size_t column, const ColumnProfile& profile);

// The first rows of a file.
struct DataSample {
  DataConfig table;  // Result of FindTable().
  char separator = ',';
  std::vector<std::string> header;
  std::string header_line;
  std::vector<ColumnProfile> columns;
  // Number of rows that differ from the previous one in one column alone; one per column.
  std::vector<uint64_t> only_changes;
  KeptRows kept;
  uint64_t rows = 0;
  bool is_whole = false;  // The file has no other rows.
};

// Reads the first rows of a file. Errors: those of reading; INVALID_ARGUMENT with place and remedy
// for a file that has no rows, no header or too few columns, that is no text, or has quotes over
// lines, or more than 1 % rows of other lengths.
StatusOr<DataSample> SampleData(const std::string& path, uint64_t max_rows,
                                Columns columns = Columns::kTwo);

// Returns the names between the commas of a text. A name of the header can have commas.
std::vector<std::string> NamesIn(const std::string& text, const std::vector<std::string>& header);

// Returns the column of the header that an option names; a type as in "user_id:token" can be left
// out.
// Errors: INVALID_ARGUMENT with the header.
StatusOr<size_t> FindColumn(const std::vector<std::string>& header, std::string_view option,
                            const std::string& name);

// Returns the column of the label, by `name` or, if that is empty, by its names and values.
// Errors: INVALID_ARGUMENT with the columns that could be the label.
StatusOr<size_t> FindLabel(const DataSample& sample, const std::string& name,
                           const LabelCommand& command);

// Returns whether a column is known only with the label, such as conversion with click.
bool IsFurtherLabel(const std::string& name, const ColumnProfile& profile);

// Returns whether a cell is empty or a text that always means a missing one, such as NA.
bool MeansMissing(std::string_view cell);

// Returns the text of a number without leading zeros and without decimals that are zeros: 7 of 007
// and 7.0. Other texts stay.
std::string_view NumberOf(std::string_view text);

// Returns whether a text means yes, such as "clicked", or no. Nothing: it has no known meaning.
std::optional<bool> MeaningOf(const std::string& text);

struct Yes {
  std::string text;
  std::string why;  // A phrase for the user.
};
// Returns which of two texts means yes, as in "like" and "dislike". Nothing: none is known to.
std::optional<Yes> YesOf(const std::string& a, const std::string& b);

// Guesses the label. Requires a column that FindLabel returned. The guess lacks the column's name.
// positive: the text of label 1, or empty. Errors: INVALID_ARGUMENT if it is not one of two values.
StatusOr<ColumnGuess> GuessLabel(const ColumnProfile& profile, const std::string& positive);

// Returns the index in kListSeparators of what separates the values of lists. Nothing: the cells
// are no lists.
std::optional<size_t> FindListSeparator(const ColumnProfile& profile);

// Guesses the role of a column. name: in the header. The guess lacks the column's name.
ColumnGuess GuessColumn(const std::string& name, const ColumnProfile& profile,
                        const Evidence& evidence, bool is_whole);

// Returns the guess of a column whose kind an option names. Errors: INVALID_ARGUMENT for texts as
// numbers.
StatusOr<ColumnGuess> GuessAs(ColumnConfig::Kind kind, const std::string& name,
                              const ColumnProfile& profile, const Evidence& evidence,
                              bool is_whole);

// Returns whether numbers are better after log1p.
bool IsLogOf(const ColumnProfile& profile);

}  // namespace simurgh
