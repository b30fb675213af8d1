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
#include "data/guess/data_format.h"
#include "data/process/numbers.h"
#include "data/row_parser.h"
#include "simurgh/base/hash.h"
#include "simurgh/data/row_lines.h"

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

constexpr std::string_view kSeparators = ",;\t|";
constexpr char kLastSeparator = ':';  // If no other separates cells, since times have it.
constexpr size_t kFirstRows = 1'000;  // Enough to find the separator.

// The number of cells of a line; 0 if it cannot be split.
size_t CellsOf(std::string_view line, char separator) {
  CsvSplitter splitter(separator);
  const auto cells = splitter.Split(line);
  return cells.ok() ? (*cells)->size() : 0;
}

// The separator that gives most lines the number of cells of the first one, more than one. Ties:
// the most cells. Nothing if none gives more than one cell.
std::optional<char> FindSeparator(const std::vector<std::string>& lines) {
  std::optional<char> best;
  std::pair<uint64_t, size_t> most;
  for (const char separator : kSeparators) {
    const size_t cells = CellsOf(lines[0], separator);
    if (cells < 2) continue;
    const auto equal = static_cast<uint64_t>(std::ranges::count_if(
        lines, [&](const std::string& line) { return CellsOf(line, separator) == cells; }));
    if (std::pair(equal, cells) <= most) continue;
    most = {equal, cells};
    best = separator;
  }
  if (!best && CellsOf(lines[0], kLastSeparator) > 1) return kLastSeparator;
  return best;
}

bool IsText(std::string_view line) {
  return std::ranges::none_of(line, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < ' ' && c != '\t' && c != '\r' && c != '\f' && c != '\v';
  });
}

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

Status CheckFirstLine(const RowLines& lines, const Line& first) {
  if (!first.whole) return LongLineError();
  if (!IsText(first.text)) {
    return absl::InvalidArgumentError(
        "this is no text in UTF-8; give a CSV file, which may be compressed by gzip or zstd");
  }
  if (lines.line_number() == 1) return absl::OkStatus();
  return NoHeader("the first line is empty");
}

// Refuses all formats but CSV.
Status CheckFormat(DataConfig::Format format, const std::string& path) {
  if (format == DataConfig::Format::kCsv) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": columns of this format cannot be guessed; write a configuration with `format: ",
      FormatName(format), "`, see 'Data files' in config/README.md"));
}

Status Add(std::string_view line, CsvSplitter& splitter, CsvSample& sample) {
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
  StatusOr<DataConfig::Format> format = FormatOfName(path);
  SIMURGH_RETURN_IF_ERROR(Annotate(format.status(), path));
  SIMURGH_RETURN_IF_ERROR(CheckFormat(*format, path));
  SIMURGH_ASSIGN_OR_RETURN(RowLines lines, RowLines::Open(DataConfig(), {path}));
  SIMURGH_ASSIGN_OR_RETURN(std::optional<Line> line, lines.Next());
  if (!line) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": empty; give a CSV file with a header and rows"));
  }
  SIMURGH_RETURN_IF_ERROR(lines.AtLine(CheckFirstLine(lines, *line)));
  std::vector<std::string> first;  // The header and the first rows.
  std::vector<size_t> numbers;     // By line.
  while (line) {
    first.emplace_back(line->text);
    numbers.push_back(lines.line_number());
    if (first.size() > std::min<uint64_t>(kFirstRows, max_rows)) break;
    SIMURGH_ASSIGN_OR_RETURN(line, lines.Next());
  }
  format = FormatOfLines(first);
  SIMURGH_RETURN_IF_ERROR(Annotate(format.status(), path));
  SIMURGH_RETURN_IF_ERROR(CheckFormat(*format, path));
  const std::optional<char> separator = FindSeparator(first);
  if (!separator) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ":1: one column; separate the cells of a row by ',', ';', '|' or a tab, "
                     "and give a label column and others"));
  }
  if (first.size() == 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": no rows below the header; give some with both labels"));
  }

  CsvSample sample{.separator = *separator, .header_line = first[0]};
  CsvSplitter splitter(*separator);
  SIMURGH_ASSIGN_OR_RETURN(const auto* names, splitter.Split(first[0]));
  sample.header.assign(names->begin(), names->end());
  sample.columns.resize(names->size());
  BadRows bad;
  for (size_t i = 1; i < first.size(); ++i) {
    const Status added = Add(first[i], splitter, sample);
    bad.Add(Annotate(added, absl::StrCat(path, ":", numbers[i])));
  }
  while (line && sample.rows < max_rows) {
    SIMURGH_ASSIGN_OR_RETURN(line, lines.Next());
    if (!line) break;
    const Status added = line->whole ? Add(line->text, splitter, sample) : LongLineError();
    bad.Add(lines.AtLine(added));
  }
  sample.is_whole = !line;
  SIMURGH_RETURN_IF_ERROR(bad.Check(sample.rows));
  SIMURGH_RETURN_IF_ERROR(Annotate(CheckHeader(sample), path + ":1"));
  return sample;
}

}  // namespace simurgh
