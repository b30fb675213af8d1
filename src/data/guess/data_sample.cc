#include "data/guess/data_sample.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "base/text.h"
#include "data/guess/table_rows.h"
#include "data/processing/times.h"
#include "data/reading/csv_cells.h"
#include "data/reading/row_lines.h"
#include "data/reading/row_text.h"

namespace simurgh {

void BadRows::Add(const Status& problem) {
  if (problem.ok()) return;
  if (count++ == 0) first = std::string(problem.message());
}

Status BadRows::Check(uint64_t good_rows) const {
  constexpr uint64_t kMaxShare = 100;  // At most 1 of 100 rows may be bad.
  const uint64_t rows = good_rows + count;
  if (count * kMaxShare <= rows) return absl::OkStatus();
  if (rows == count || count == 1) return absl::InvalidArgumentError(first);
  return absl::InvalidArgumentError(
      absl::StrCat(first, " (the first of ", count, " bad rows; up to 1 % can be left out)"));
}

namespace {

constexpr std::array<std::string_view, 14> kMissing = {"",     "NA",     "N/A",    "n/a",   "#N/A",
                                                       "<NA>", "NaT",    "nan",    "NULL",  "\\N",
                                                       "null", "(null)", "<null>", "#NULL!"};
// Texts, in lower case, that mean a missing cell among numbers.
constexpr std::array<std::string_view, 34> kDoubtful = {"0000-00-00", "0000-00-00 00:00:00",
                                                        "?",          "-",
                                                        "--",         "---",
                                                        "\u2013",     "\u2014",
                                                        "\u2212",     ".",
                                                        "..",         "...",
                                                        "*",          "na",
                                                        "n.a.",       "nan",
                                                        "nil",        "none",
                                                        "null",       "(none)",
                                                        "unknown",    "(unknown)",
                                                        "undefined",  "missing",
                                                        "(missing)",  "empty",
                                                        "(empty)",    "(blank)",
                                                        "inf",        "-inf",
                                                        "+inf",       "infinity",
                                                        "-infinity",  "#div/0!"};

bool IsIn(std::string_view text, const auto& texts) {
  return std::ranges::find(texts, text) != texts.end();
}

uint64_t Sum(const std::map<std::string, uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0},
                         [](uint64_t sum, const auto& entry) { return sum + entry.second; });
}

}  // namespace

bool MeansMissing(std::string_view cell) { return IsIn(cell, kMissing); }

std::string_view NumberOf(std::string_view text) {
  text = IntegerText(text).value_or(text);
  if (!ParseIntegerCell(text)) return text;
  while (text.size() > 1 && text.starts_with('0')) text.remove_prefix(1);
  return text;
}

void DistinctCounter::Add(std::string_view text) {
  const uint64_t hash = HashBytes(text);
  if (hash >= limit_) return;
  hashes_.push_back(hash);
  if (hashes_.size() < 2 * (kExact + 1)) return;
  hashes_ = Smallest();
  if (hashes_.size() > kExact) limit_ = hashes_.back();
}

std::vector<uint64_t> DistinctCounter::Smallest() const {
  std::vector<uint64_t> smallest = hashes_;
  std::ranges::sort(smallest);
  const auto twice = std::ranges::unique(smallest);
  smallest.erase(twice.begin(), twice.end());
  if (smallest.size() > kExact + 1) smallest.resize(kExact + 1);
  return smallest;
}

uint64_t DistinctCounter::count() const {
  const std::vector<uint64_t> smallest = Smallest();
  if (smallest.size() <= kExact) return smallest.size();
  const double share = static_cast<double>(smallest.back()) /
                       static_cast<double>(std::numeric_limits<uint64_t>::max());
  return static_cast<uint64_t>(static_cast<double>(kExact) / share);
}

double DistinctCounter::ShareIn(const DistinctCounter& other) const {
  std::vector<uint64_t> own = Smallest();
  std::vector<uint64_t> others = other.Smallest();
  // Up to this hash, both are complete.
  uint64_t limit = std::numeric_limits<uint64_t>::max();
  for (const std::vector<uint64_t>* hashes : {&own, &others}) {
    if (hashes->size() > kExact) limit = std::min(limit, hashes->back());
  }
  std::erase_if(own, [limit](uint64_t hash) { return hash > limit; });
  if (own.empty()) return 0;
  std::vector<uint64_t> common;
  std::ranges::set_intersection(own, others, std::back_inserter(common));
  return static_cast<double>(common.size()) / static_cast<double>(own.size());
}

void ColumnProfile::Add(std::string_view cell) {
  if (IsIn(cell, kMissing)) {
    ++missing[std::string(cell)];
    return;
  }
  ++filled;
  distinct.Add(IntegerText(cell).value_or(cell));
  if (!has_many_values) {
    ++values[std::string(cell)];
    has_many_values = values.size() > kMaxValues;
    if (has_many_values) values.clear();
  }
  const std::optional<double> number = ParseNumberCell(cell);
  const bool is_other_number = AddToAlternatives(number, cell) && !number;
  // Numbers of other lengths can be Unix times; GuessDates() decides by their range.
  const bool may_be_date =
      number ? cell.size() == 8
             : cell.size() >= 8 && std::string_view("-/.").find(cell[4]) != cell.npos;
  const std::optional<double> days = may_be_date ? ParseDateCell(cell) : std::nullopt;
  const bool is_date = days && (!number || *days != EpochDays(*number));
  if (is_date) {
    dates.AddNumber(*days, {}, {});
    has_times |= std::floor(*days) != *days;
  }
  if (number) AddNumber(*number, cell, {});
  if (number || is_date) return;
  if (IsIn(absl::AsciiStrToLower(std::string(cell)), kDoubtful)) {
    ++doubtful[std::string(cell)];
    return;
  }
  constexpr size_t kMaxWords = 3;
  if (!has_many_words_ && !is_other_number) {
    const bool has_digit = cell.find_first_of("0123456789") != cell.npos;
    if (!has_digit) ++words[std::string(cell)];
    has_many_words_ = has_digit || words.size() > kMaxWords;
    if (has_many_words_) words.clear();
  }
  AddText(cell);
}

bool ColumnProfile::AddToAlternatives(std::optional<double> plain, std::string_view cell) {
  constexpr size_t kMaxBytes = 40;
  const bool has_digit = cell.find_first_of("0123456789") != cell.npos;
  if (!plain && (cell.size() > kMaxBytes || !has_digit)) return false;
  bool is_number = false;
  const bool has_point = plain && cell.find('.') != cell.npos;
  for (Alternative& one : alternatives_) {
    if (!one.is_possible) continue;
    const bool is_same = plain && (!has_point || one.format.decimal == '.');
    const auto number = is_same ? plain : ParseNumberCell(cell, one.format);
    one.is_possible = number || !plain;
    if (!number) continue;
    is_number = true;
    if (!is_same && !one.numbers) one.numbers = *this;
    if (one.numbers) one.numbers->AddNumber(*number, cell, one.format);
  }
  return is_number;
}

void ColumnProfile::Settle() {
  const Alternative* best = nullptr;
  for (const Alternative& one : alternatives_) {
    if (!one.is_possible || !one.numbers) continue;
    if (one.numbers->numbers > (best == nullptr ? numbers : best->numbers->numbers)) best = &one;
  }
  if (best != nullptr && best->numbers->numbers + Sum(doubtful) + Sum(words) == filled) {
    format = best->format;
    static_cast<NumberProfile&>(*this) = *best->numbers;
  }
  // Few words among many numbers mean that there is none.
  const uint64_t known = std::max(numbers, dates.numbers);
  const bool are_missing =
      has_many_values && known * 2 >= filled && known + Sum(doubtful) + Sum(words) == filled;
  if (!are_missing) words.clear();
  has_many_words_ = true;  // Later cells add none.
}

void NumberProfile::AddNumber(double number, std::string_view cell, const NumberFormat& format) {
  if (numbers == 0 || number < least) {
    least = number;
    at_least = 0;
  }
  if (number == least) ++at_least;
  greatest = numbers == 0 ? number : std::max(greatest, number);
  ++numbers;
  constexpr double kMangled = 1e11;  // Spreadsheets write integers from here on as 1.2E+11.
  const std::optional<std::string_view> integer = IntegerText(cell);
  if (!integer && std::abs(number) >= kMangled) {
    if (mangled++ == 0) first_mangled = std::string(cell);
    ++integers;
  } else if (format == NumberFormat() ? integer && ParseIntegerCell(*integer)
                                      : cell.find(format.decimal) == cell.npos) {
    ++integers;
  }
  has_leading_zeros |= cell.size() > 1 && cell[0] == '0' && cell.find(format.decimal) == cell.npos;
  if (last_ && number != *last_ + 1) is_consecutive = false;
  last_ = number;
  // Source: Pebay, "Formulas for robust, one-pass parallel computation of covariances and
  // arbitrary-order statistical moments", 2008.
  const double count = moments.count() + 1;
  const double squares = moments.stddev() * moments.stddev() * moments.count();
  const double step = (number - moments.mean()) / count;
  cubes += step * (step * step * count * (count - 1) * (count - 2) - 3 * squares);
  moments.Add(number);
  if (number > -1) log_moments.Add(std::log1p(number));
}

void ListProfile::Add(std::string_view cell, char separator) {
  constexpr size_t kMaxPlaced = 10'000;
  const bool is_placed = separator == ' ' || separator == '_';
  std::string_view inner = cell;
  const bool has_brackets = TakeBrackets(inner, separator);
  bool is_list = cell.find(separator) != cell.npos;
  // A list of one or no value has no separator.
  if (has_brackets && separator == ',') is_list |= inner.find(' ') == inner.npos;
  uint64_t count = 0;
  ForEachValue(cell, separator, [&](std::string_view value) {
    if (value.empty()) return;
    distinct.Add(IntegerText(value).value_or(value));
    constexpr std::string_view kStarts = "0123456789+-.";
    if (kStarts.find(value[0]) != kStarts.npos && ParseNumberCell(value)) {
      ++numbers;
      const auto integer = IntegerText(value);
      integers += integer && ParseIntegerCell(*integer) ? 1 : 0;
    }
    if (is_placed && is_list && (count > 0 || places_.size() < kMaxPlaced)) {
      ++places_[HashBytes(value)][count == 0 ? 0 : 1];
    }
    ++count;
  });
  lists += is_list ? 1 : 0;
  values += count;
  fewest = std::min(fewest, count);
  most = std::max(most, count);
}

double ListProfile::Mixing() const {
  constexpr uint64_t kMinUses = 4;
  uint64_t all = 0;
  uint64_t mixed = 0;
  for (const auto& [hash, uses] : places_) {
    const uint64_t sum = uses[0] + uses[1];
    if (sum < kMinUses) continue;
    all += sum;
    if (uses[0] > 0 && uses[1] > 0) mixed += sum;
  }
  return all == 0 ? 0 : static_cast<double>(mixed) / static_cast<double>(all);
}

void ColumnProfile::AddText(std::string_view cell) {
  for (size_t i = 0; i < kListSeparators.size(); ++i) lists[i].Add(cell, kListSeparators[i]);
}

uint64_t ColumnProfile::cells() const { return filled + Sum(missing); }

bool ColumnProfile::is_numeric() const {
  return numbers > 0 && numbers + Sum(doubtful) + Sum(words) == filled;
}

bool ColumnProfile::are_dates() const {
  return dates.numbers > 0 && dates.numbers + Sum(doubtful) + Sum(words) == filled;
}

double NumberProfile::skewness() const {
  const double deviation = moments.stddev();
  return deviation > 0 ? cubes / moments.count() / (deviation * deviation * deviation) : 0;
}

namespace {

Status NoHeader(std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("no header: ", absl::string_view(what.data(), what.size()),
                   "; insert a first line with the names of the columns, or correct it"));
}

// Returns whether a column of numbers has a text in the first line, which is then no row.
bool HasTextOverNumbers(const DataSample& sample) {
  for (size_t i = 0; i < sample.header.size(); ++i) {
    ColumnProfile with_header = sample.columns[i];
    with_header.Add(sample.header[i]);
    const ColumnProfile& column = sample.columns[i];
    if ((column.is_numeric() && !with_header.is_numeric()) ||
        (column.are_dates() && !with_header.are_dates())) {
      return true;
    }
  }
  return false;
}

// Checks that the first line is a header. Unless a text is above numbers, a header has no numbers,
// no name twice, and its cells are not those of the rows below.
Status CheckHeader(const DataSample& sample) {
  if (HasTextOverNumbers(sample)) return absl::OkStatus();
  std::set<std::string_view> names;
  size_t values = 0;
  for (size_t i = 0; i < sample.header.size(); ++i) {
    const std::string& name = sample.header[i];
    if (ParseNumberCell(name)) {
      return NoHeader(absl::StrCat("the first line has the number ", name, " in column ", i + 1));
    }
    if (!name.empty() && !names.insert(name).second) {
      return NoHeader(absl::StrCat("the first line has ", Quoted(name), " twice"));
    }
    if (sample.columns[i].values.contains(name)) ++values;
  }
  if (values * 2 <= sample.header.size()) return absl::OkStatus();
  return NoHeader(absl::StrCat(values, " cells of the first line are values of the rows below"));
}

// Reads the names of a CSV file.
Status ReadHeader(TableLines& lines, TableCells& splitter, DataSample& sample) {
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<Line> line, lines.Next());
  SIMURGH_RETURN_IF_ERROR(
      lines.AtLine(lines.is_first_line() ? absl::OkStatus() : NoHeader("the first line is empty")));
  sample.header_line = line->text;
  const auto names = splitter.Split(line->text);
  if (!names.ok()) return lines.AtLine(names.status());
  sample.header.assign((*names)->begin(), (*names)->end());
  return absl::OkStatus();
}

// Counts a row that differs from `previous` in one cell, and replaces that by its hashes.
void CountChange(std::span<const std::string_view> cells, std::vector<uint64_t>& previous,
                 DataSample& sample) {
  size_t changes = 0;
  size_t last = 0;
  const bool is_first = previous.empty();
  previous.resize(cells.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    const uint64_t hash = HashBytes(cells[i]);
    if (std::exchange(previous[i], hash) == hash) continue;
    ++changes;
    last = i;
  }
  if (changes == 1 && !is_first) ++sample.only_changes[last];
}

Status Add(std::string_view line, TableCells& splitter, std::vector<uint64_t>& previous,
           DataSample& sample) {
  SIMURGH_ASSIGN_OR_RETURN(const auto* cells, splitter.Split(line));
  SIMURGH_RETURN_IF_ERROR(CheckLength(cells->size(), sample.columns.size()));
  ++sample.rows;
  sample.kept.Add(*cells);
  CountChange(*cells, previous, sample);
  for (size_t i = 0; i < cells->size(); ++i) {
    sample.columns[i].Add((*cells)[i]);
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<DataSample> SampleData(const std::string& path, uint64_t max_rows, Columns columns) {
  SIMURGH_ASSIGN_OR_RETURN(const DataConfig table, FindTable(path, max_rows, columns));
  SIMURGH_ASSIGN_OR_RETURN(TableLines lines, TableLines::Open(table, path));
  TableCells splitter(table);
  DataSample sample{.table = table, .separator = table.csv.separator};
  if (HasHeader(table)) {
    SIMURGH_RETURN_IF_ERROR(ReadHeader(lines, splitter, sample));
  } else {
    for (const ColumnConfig& column : table.columns) sample.header.push_back(column.name);
    if (IsArrow(table)) sample.header_line = CsvHeader(table);
  }
  sample.columns.resize(sample.header.size());
  sample.only_changes.resize(sample.header.size());
  std::vector<uint64_t> previous;
  BadRows bad;
  std::optional<Line> line;
  while (sample.rows < max_rows) {
    SIMURGH_ASSIGN_OR_RETURN(line, lines.Next());
    if (!line) break;
    const Status added =
        line->whole ? Add(line->text, splitter, previous, sample) : LongLineError();
    bad.Add(lines.AtLine(added));
  }
  sample.is_whole = !line;
  SIMURGH_RETURN_IF_ERROR(bad.Check(sample.rows));
  if (sample.rows == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, HasHeader(table) ? ": no rows below the header" : ": no rows",
                     "; give some with both labels"));
  }
  for (ColumnProfile& column : sample.columns) column.Settle();
  if (HasHeader(table)) SIMURGH_RETURN_IF_ERROR(Annotate(CheckHeader(sample), path + ":1"));
  return sample;
}

}  // namespace simurgh
