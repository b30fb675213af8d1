#include "data/reading/csv_header.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

#include "base/invalid.h"
#include "base/text.h"
#include "config/nearest.h"
#include "data/processing/times.h"
#include "data/reading/csv_cells.h"
#include "data/reading/row_lines.h"
#include "data/reading/row_parser.h"

namespace simurgh {
namespace {

using Kind = ColumnConfig::Kind;
using Names = std::vector<std::string_view>;

bool IsNeeded(const ColumnConfig& column, bool needs_labels) {
  if (column.may_lack) return false;
  if (IsTarget(column.kind)) return needs_labels;
  return column.kind != Kind::kSkip;
}

// Returns a name without differences in spelling: case, blanks, underscores and the like.
std::string Folded(std::string_view name) {
  std::string folded;
  for (const char c : name) {
    const bool is_ascii = absl::ascii_isascii(static_cast<unsigned char>(c));
    if (!is_ascii || absl::ascii_isalnum(static_cast<unsigned char>(c))) {
      folded.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
    }
  }
  return folded;
}

// Returns the cell of each column: with its name or else, if only one column and one cell fit, with
// a name that differs in case and the like.
std::vector<size_t> CellsOf(const DataConfig& config, const Names& names) {
  std::vector<size_t> cells(config.columns.size(), FileColumns::kAbsent);
  std::vector<bool> is_used(names.size(), false);
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto found = std::ranges::find(names, HeaderName(config.columns[i]));
    if (found == names.end()) continue;
    cells[i] = static_cast<size_t>(found - names.begin());
    is_used[cells[i]] = true;
  }
  std::map<std::string, std::vector<size_t>> left;
  for (size_t cell = 0; cell < names.size(); ++cell) {
    if (!is_used[cell]) left[Folded(names[cell])].push_back(cell);
  }
  std::map<std::string, size_t> wanted;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (cells[i] == FileColumns::kAbsent) ++wanted[Folded(HeaderName(config.columns[i]))];
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    if (cells[i] != FileColumns::kAbsent) continue;
    const std::string folded = Folded(HeaderName(config.columns[i]));
    const auto found = left.find(folded);
    if (folded.empty() || found == left.end()) continue;
    if (found->second.size() == 1 && wanted[folded] == 1) cells[i] = found->second.front();
  }
  return cells;
}

std::string DigitsOf(std::string_view text) {
  std::string digits;
  std::ranges::copy_if(text, std::back_inserter(digits),
                       [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
  return digits;
}

// Returns whether a cell is a misspelt name. Numbered values, such as `user7` in the column `user`,
// are not.
bool IsNear(const std::string& name, const Names& cells) {
  constexpr size_t kShortest = 3;
  if (name.size() < kShortest) return false;
  std::vector<std::string> candidates;
  for (const std::string_view cell : cells) {
    if (cell.size() >= kShortest && DigitsOf(cell) == DigitsOf(name)) candidates.emplace_back(cell);
  }
  return !Nearest(name, candidates).empty();
}

struct Evidence {
  size_t needed = 0;    // Columns that the data needs.
  size_t named = 0;     // Needed columns found by name.
  size_t misspelt = 0;  // Needed columns whose name is like a cell.
  // Columns of numbers and labels whose cell, by position, is such a value, or another text.
  size_t numbers = 0;
  size_t texts = 0;
  bool fits = false;  // The line has the cells of a row.
  // A cell is a number, or all have digits, and few names are like that: ids such as 7 or u7.
  bool has_values = false;

  bool has_names() const { return 2 * named > needed && named >= 2; }
  bool has_like_names() const {
    return 2 * (named + misspelt) >= needed && (named > 0 || misspelt >= 2);
  }
};

Evidence EvidenceOf(const DataConfig& config, const Names& names, bool needs_labels) {
  const auto has = [](const std::vector<std::string>& texts, std::string_view cell) {
    return std::ranges::find(texts, cell) != texts.end();
  };
  Evidence evidence;
  const std::vector<size_t> cells = CellsOf(config, names);
  for (size_t i = 0; i < cells.size(); ++i) {
    const ColumnConfig& column = config.columns[i];
    if (!IsNeeded(column, needs_labels)) continue;
    ++evidence.needed;
    if (cells[i] != FileColumns::kAbsent) {
      ++evidence.named;
    } else if (IsNear(HeaderName(column), names)) {
      ++evidence.misspelt;
    }
  }
  FileColumns places = ColumnsInOrder(config.columns, needs_labels);
  if (names.size() != places.width) places = ColumnsInOrder(config.columns, true);
  evidence.fits = names.size() == places.width;
  const auto has_digits = [](std::string_view text) { return !DigitsOf(text).empty(); };
  const auto named_so = std::ranges::count_if(
      config.columns, [&](const ColumnConfig& column) { return has_digits(HeaderName(column)); });
  evidence.has_values =
      2 * static_cast<size_t>(named_so) < config.columns.size() &&
      (std::ranges::all_of(names, has_digits) ||
       std::ranges::any_of(names, [](auto cell) { return ParseNumberCell(cell).has_value(); }));
  for (size_t i = 0; i < config.columns.size(); ++i) {
    const ColumnConfig& column = config.columns[i];
    const bool is_number = column.kind == Kind::kDense || column.kind == Kind::kWeight;
    if ((!is_number && column.kind != Kind::kLabel) || column.width > 1) continue;
    if (places.cells[i] >= names.size()) continue;
    const std::string_view cell = names[places.cells[i]];
    const bool is_number_cell = column.positive.empty() && ParseCell(column, cell).has_value();
    if (is_number_cell || has(config.missing_values, cell) || IsPositive(cell, column)) {
      ++evidence.numbers;
    } else if (column.positive.empty() || !column.negative.empty()) {
      ++evidence.texts;  // Otherwise any text is a label.
    }
  }
  return evidence;
}

Status Missing(const DataConfig& config, size_t place, const Names& cells) {
  const ColumnConfig& column = config.columns[place];
  const std::string& name = HeaderName(column);
  std::vector<std::string> names;
  for (const std::string_view other : cells) {
    const std::string quoted = Quoted(other);
    names.push_back(quoted.substr(1, quoted.size() - 2));
  }
  std::ranges::sort(names);
  return Invalid("the header has no column %s; %s; rename it, or set data.columns.%d.header_name%s",
                 Quoted(name), NearestRemedy("column", name, names), place,
                 IsTarget(column.kind) ? "" : ", or add the column with empty cells");
}

}  // namespace

FirstLine FirstLineOf(const DataConfig& config, std::string_view line, bool needs_labels) {
  const bool has_header = config.csv.header;
  CsvSplitter splitter(config.csv.separator);
  const auto names = splitter.Split(line);
  if (!names.ok() || line.empty()) return has_header ? FirstLine::kHeader : FirstLine::kRow;
  const Evidence evidence = EvidenceOf(config, **names, needs_labels);
  if (evidence.named == evidence.needed || evidence.has_names()) return FirstLine::kHeader;
  if (evidence.numbers > 0) {
    const bool is_row = !has_header || (evidence.fits && evidence.texts == 0 &&
                                        2 * evidence.named < evidence.needed && !config.csv.strict);
    return is_row ? FirstLine::kRow : FirstLine::kHeader;
  }
  if (2 * evidence.named >= evidence.needed || evidence.has_like_names()) return FirstLine::kHeader;
  if (needs_labels) {
    return has_header || evidence.texts > 0 ? FirstLine::kHeader : FirstLine::kRow;
  }
  if (has_header) {
    const bool is_clear = evidence.texts > 0 || evidence.named > 0 || config.csv.strict;
    if (is_clear || !evidence.fits) return FirstLine::kHeader;
    return evidence.has_values ? FirstLine::kRow : FirstLine::kUnclear;
  }
  // The line is a header of other names, or a bad row, for which the output has a line.
  const std::set<std::string_view> distinct((*names)->begin(), (*names)->end());
  const bool is_like_header = distinct.size() == (*names)->size() && !distinct.contains("");
  return evidence.texts > 0 && evidence.fits && is_like_header ? FirstLine::kUnclear
                                                               : FirstLine::kRow;
}

bool HasName(const DataConfig& config, std::string_view header) {
  CsvSplitter splitter(config.csv.separator);
  const auto names = splitter.Split(header);
  if (!names.ok()) return false;
  return !std::ranges::all_of(CellsOf(config, **names),
                              [](size_t cell) { return cell == FileColumns::kAbsent; });
}

StatusOr<std::optional<FileColumns>> FindColumns(const DataConfig& config, std::string_view header,
                                                 bool needs_labels) {
  CsvSplitter splitter(config.csv.separator);
  SIMURGH_ASSIGN_OR_RETURN(const Names* names, splitter.Split(header));
  FileColumns columns{.width = names->size(), .cells = CellsOf(config, *names)};
  std::optional<size_t> missing;
  for (size_t i = 0; i < config.columns.size(); ++i) {
    const ColumnConfig& column = config.columns[i];
    if (!IsNeeded(column, needs_labels)) continue;
    if (columns.cells[i] == FileColumns::kAbsent && !missing) missing = i;
    if (std::ranges::count(*names, HeaderName(column)) > 1) {
      return Invalid("the header has column %s twice; rename one", Quoted(HeaderName(column)));
    }
  }
  const bool has_none =
      std::ranges::all_of(columns.cells, [](size_t cell) { return cell == FileColumns::kAbsent; });
  if (has_none && !config.csv.strict &&
      !EvidenceOf(config, *names, needs_labels).has_like_names()) {
    return std::nullopt;
  }
  if (missing) return Missing(config, *missing, *names);
  for (size_t cell = 0; config.csv.strict && cell < names->size(); ++cell) {
    if (std::ranges::find(columns.cells, cell) != columns.cells.end()) continue;
    return Invalid(
        "data.columns has no column %s of the header; add it, with kind: skip if it is unused, "
        "or set data.csv.strict: false",
        Quoted((*names)[cell]));
  }
  if (columns == ColumnsInOrder(config.columns, /*with_labels=*/true)) return std::nullopt;
  return columns;
}

}  // namespace simurgh
