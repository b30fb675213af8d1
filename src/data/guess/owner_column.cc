#include "data/guess/owner_column.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/guess/column_name.h"
#include "simurgh/base/hash.h"

namespace simurgh {
namespace {

// The number of each kept row's value, from 0.
std::vector<uint32_t> ValuesOf(const KeptRows& rows, size_t column) {
  std::unordered_map<uint64_t, uint32_t> numbers;
  std::vector<uint32_t> values;
  values.reserve(rows.size());
  for (size_t row = 0; row < rows.size(); ++row) {
    const auto next = static_cast<uint32_t>(numbers.size());
    values.push_back(numbers.try_emplace(HashBytes(rows.Cell(row, column)), next).first->second);
  }
  return values;
}

bool MayBeIds(const std::string& name, const ColumnProfile& profile) {
  constexpr uint64_t kFewest = 20;
  const NameHint hint = HintOf(name);
  const bool is_number = hint == NameHint::kNumber || hint == NameHint::kSurelyNumber ||
                         (profile.is_numeric() && profile.integers < profile.numbers);
  return !is_number && profile.distinct.count() >= kFewest;
}

// Pairs of neighbouring rows of one id, and those of them that differ in another column.
std::pair<double, double> PairsOf(const std::vector<uint32_t>& ids,
                                  const std::vector<uint32_t>& values) {
  std::unordered_map<uint32_t, uint32_t> last;
  std::pair<double, double> pairs;
  for (size_t row = 0; row < ids.size(); ++row) {
    const auto [at, is_first] = last.try_emplace(ids[row], values[row]);
    if (is_first) continue;
    ++pairs.first;
    if (std::exchange(at->second, values[row]) != values[row]) ++pairs.second;
  }
  return pairs;
}

}  // namespace

std::optional<size_t> OwnerOf(const CsvSample& sample, size_t column) {
  constexpr double kFewest = 10;  // Pairs that would differ by chance.
  constexpr double kShare = 0.02;
  const std::vector<uint32_t> values = ValuesOf(sample.kept, column);
  std::vector<double> counts;
  for (const uint32_t value : values) {
    counts.resize(std::max<size_t>(counts.size(), value + 1));
    ++counts[value];
  }
  // The share of random pairs that differ.
  double chance = 1;
  for (const double count : counts) {
    const double share = count / static_cast<double>(values.size());
    chance -= share * share;
  }
  for (size_t i = 0; i < sample.columns.size(); ++i) {
    if (i == column || !MayBeIds(sample.header[i], sample.columns[i])) continue;
    const auto [pairs, differ] = PairsOf(ValuesOf(sample.kept, i), values);
    if (pairs * chance >= kFewest && differ <= kShare * pairs * chance) return i;
  }
  return std::nullopt;
}

}  // namespace simurgh
