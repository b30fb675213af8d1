#include "data/guess/column_profile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "data/csv_cells.h"
#include "simurgh/base/hash.h"

namespace simurgh {
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
  if (smallest_.size() > kExact && hash >= *smallest_.rbegin()) return;
  smallest_.insert(hash);
  if (smallest_.size() > kExact + 1) smallest_.erase(std::prev(smallest_.end()));
}

uint64_t DistinctCounter::count() const {
  if (smallest_.size() <= kExact) return smallest_.size();
  const double share = static_cast<double>(*smallest_.rbegin()) /
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

}  // namespace simurgh
