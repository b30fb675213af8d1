#include "data/guess/csv_sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "data/csv_cells.h"
#include "data/guess/table_rows.h"
#include "data/process/numbers.h"
#include "data/row_parser.h"
#include "simurgh/base/hash.h"
#include "simurgh/data/row_lines.h"
#include "simurgh/data/row_text.h"

namespace simurgh {

void BadRows::Add(const Status& problem) {
  if (problem.ok()) return;
  if (count++ == 0) first = std::string(problem.message());
}

Status BadRows::Check(uint64_t good_rows) const {
  constexpr uint64_t kMaxShare = 100;  // 1 of 100.
  const uint64_t rows = good_rows + count;
  if (count * kMaxShare <= rows) return absl::OkStatus();
  if (rows == count || count == 1) return absl::InvalidArgumentError(first);
  return absl::InvalidArgumentError(
      absl::StrCat(first, " (the first of ", count, " bad rows; up to 1 % can be left out)"));
}

namespace {

constexpr std::array<std::string_view, 9> kMissing = {"",     "NA",  "N/A",  "n/a", "#N/A",
                                                      "NULL", "nan", "null", "\\N"};
constexpr std::array<std::string_view, 9> kDoubtful = {
    "?", "-", ".", "None", "none", "NaN", "unknown", "Unknown", "missing"};

bool IsIn(std::string_view text, const auto& texts) {
  return std::ranges::find(texts, text) != texts.end();
}

uint64_t Sum(const std::map<std::string, uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0},
                         [](uint64_t sum, const auto& entry) { return sum + entry.second; });
}

}  // namespace

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

void ColumnProfile::Add(std::string_view cell, char separator) {
  if (IsIn(cell, kMissing)) {
    ++missing[std::string(cell)];
    return;
  }
  ++filled;
  distinct.Add(cell);
  if (!has_many_values) {
    ++values[std::string(cell)];
    has_many_values = values.size() > kMaxValues;
    if (has_many_values) values.clear();
  }
  if (const auto number = ParseNumberCell(cell)) {
    AddNumber(*number, cell);
  } else if (IsIn(cell, kDoubtful)) {
    ++doubtful[std::string(cell)];
  } else {
    AddText(cell, separator);
  }
}

void ColumnProfile::AddNumber(double number, std::string_view cell) {
  if (numbers == 0 || number < least) {
    least = number;
    at_least = 0;
  }
  if (number == least) ++at_least;
  greatest = numbers == 0 ? number : std::max(greatest, number);
  ++numbers;
  if (ParseIntegerCell(cell)) ++integers;
  has_leading_zeros |= cell.size() > 1 && cell[0] == '0' && cell.find('.') == cell.npos;
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

void ColumnProfile::AddText(std::string_view cell, char separator) {
  for (size_t i = 0; i < kListSeparators.size(); ++i) {
    const char between = kListSeparators[i];
    if (between == separator) continue;
    ListProfile& list = lists[i];
    uint64_t count = 0;
    for (std::string_view rest = cell;;) {
      const size_t end = rest.find(between);
      const std::string_view value = TrimBlanks(rest.substr(0, end), between);
      if (!value.empty()) {
        ++count;
        list.distinct.Add(value);
      }
      if (end == rest.npos) break;
      rest.remove_prefix(end + 1);
    }
    if (cell.find(between) != cell.npos) ++list.lists;
    list.values += count;
    list.fewest = std::min(list.fewest, count);
    list.most = std::max(list.most, count);
  }
}

uint64_t ColumnProfile::cells() const { return filled + Sum(missing); }

bool ColumnProfile::is_numeric() const { return numbers > 0 && numbers + Sum(doubtful) == filled; }

double ColumnProfile::skewness() const {
  const double deviation = moments.stddev();
  return deviation > 0 ? cubes / moments.count() / (deviation * deviation * deviation) : 0;
}

namespace {

Status NoHeader(std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("no header: ", absl::string_view(what.data(), what.size()),
                   "; insert a first line with the names of the columns, or correct it"));
}

// Whether a column of numbers has a text in the first line, which is then no row.
bool HasTextOverNumbers(const CsvSample& sample) {
  for (size_t i = 0; i < sample.header.size(); ++i) {
    ColumnProfile with_header = sample.columns[i];
    with_header.Add(sample.header[i], sample.separator);
    if (sample.columns[i].is_numeric() && !with_header.is_numeric()) return true;
  }
  return false;
}

// Unless a text is above numbers, a header has no numbers, no name twice, and its cells are not
// those of the rows below.
Status CheckHeader(const CsvSample& sample) {
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
Status ReadHeader(TableLines& lines, TableCells& splitter, CsvSample& sample) {
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<Line> line, lines.Next());
  SIMURGH_RETURN_IF_ERROR(
      lines.AtLine(lines.is_first_line() ? absl::OkStatus() : NoHeader("the first line is empty")));
  sample.header_line = line->text;
  const auto names = splitter.Split(line->text);
  if (!names.ok()) return lines.AtLine(names.status());
  sample.header.assign((*names)->begin(), (*names)->end());
  return absl::OkStatus();
}

Status Add(std::string_view line, TableCells& splitter, CsvSample& sample) {
  SIMURGH_ASSIGN_OR_RETURN(const auto* cells, splitter.Split(line));
  SIMURGH_RETURN_IF_ERROR(CheckLength(cells->size(), sample.columns.size()));
  ++sample.rows;
  sample.kept.Add(*cells);
  for (size_t i = 0; i < cells->size(); ++i) {
    sample.columns[i].Add((*cells)[i], sample.separator);
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<CsvSample> SampleCsv(const std::string& path, uint64_t max_rows) {
  SIMURGH_ASSIGN_OR_RETURN(const DataConfig table, FindTable(path, max_rows));
  SIMURGH_ASSIGN_OR_RETURN(TableLines lines, TableLines::Open(table, path));
  TableCells splitter(table);
  CsvSample sample{.table = table, .separator = table.csv.separator};
  if (HasHeader(table)) {
    SIMURGH_RETURN_IF_ERROR(ReadHeader(lines, splitter, sample));
  } else {
    for (const ColumnConfig& column : table.columns) sample.header.push_back(column.name);
    if (IsArrow(table)) sample.header_line = CsvHeader(table);
  }
  sample.columns.resize(sample.header.size());
  BadRows bad;
  std::optional<Line> line;
  while (sample.rows < max_rows) {
    SIMURGH_ASSIGN_OR_RETURN(line, lines.Next());
    if (!line) break;
    const Status added = line->whole ? Add(line->text, splitter, sample) : LongLineError();
    bad.Add(lines.AtLine(added));
  }
  sample.is_whole = !line;
  SIMURGH_RETURN_IF_ERROR(bad.Check(sample.rows));
  if (sample.rows == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, HasHeader(table) ? ": no rows below the header" : ": no rows",
                     "; give some with both labels"));
  }
  if (HasHeader(table)) SIMURGH_RETURN_IF_ERROR(Annotate(CheckHeader(sample), path + ":1"));
  return sample;
}

}  // namespace simurgh
