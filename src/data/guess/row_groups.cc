#include "data/guess/row_groups.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "data/guess/column_name.h"

namespace simurgh {
namespace {

std::vector<uint64_t> HashesOf(const KeptRows& rows, size_t column) {
  std::vector<uint64_t> hashes;
  hashes.reserve(rows.size());
  for (size_t row = 0; row < rows.size(); ++row) {
    hashes.push_back(HashBytes(rows.Cell(row, column)));
  }
  return hashes;
}

// Returns a hash of each kept row, over all columns but those given.
std::vector<uint64_t> HashesWithout(const DataSample& sample, const std::vector<size_t>& columns) {
  std::vector<uint64_t> hashes(sample.kept.size());
  for (size_t row = 0; row < hashes.size(); ++row) {
    for (size_t i = 0; i < sample.columns.size(); ++i) {
      if (std::ranges::find(columns, i) != columns.end()) continue;
      hashes[row] = Mix64(hashes[row] + HashBytes(sample.kept.Cell(row, i)));
    }
  }
  return hashes;
}

bool MayBeIds(const std::string& name, const ColumnProfile& profile) {
  constexpr uint64_t kFewest = 20;
  const NameHint hint = HintOf(name);
  const bool is_number = hint == NameHint::kNumber || hint == NameHint::kSurelyNumber ||
                         (profile.is_numeric() && profile.integers < profile.numbers);
  return !is_number && profile.distinct.count() >= kFewest;
}

}  // namespace

bool GroupPairs::AreEqual() const {
  constexpr double kShare = 0.05;
  return differ <= kShare * pairs * chance;
}

bool GroupPairs::AreSurelyEqual() const {
  constexpr double kFewest = 10;  // Fewest pairs that would differ by chance.
  return AreEqual() && pairs * chance >= kFewest;
}

GroupPairs PairsOf(const std::vector<uint64_t>& groups, const std::vector<uint64_t>& values) {
  std::unordered_map<uint64_t, double> of_group;
  std::unordered_map<uint64_t, double> of_value;
  std::unordered_map<uint64_t, std::pair<uint64_t, double>> of_both;
  for (size_t row = 0; row < groups.size(); ++row) {
    ++of_group[groups[row]];
    ++of_value[values[row]];
    const uint64_t both = Mix64(groups[row] + Mix64(values[row]));
    ++of_both.try_emplace(both, groups[row], 0.0).first->second.second;
  }
  const auto rows = static_cast<double>(groups.size());
  GroupPairs found{
      .pairs = rows - static_cast<double>(of_group.size()), .differ = rows, .chance = 1};
  for (const auto& [both, uses] : of_both) {
    const auto& [group, count] = uses;
    found.differ -= count * count / of_group[group];
  }
  for (const auto& [value, count] : of_value) found.chance -= count / rows * (count / rows);
  return found;
}

std::optional<size_t> OwnerOf(const DataSample& sample, size_t column) {
  const std::vector<uint64_t> values = HashesOf(sample.kept, column);
  for (size_t i = 0; i < sample.columns.size(); ++i) {
    if (i == column || !MayBeIds(sample.header[i], sample.columns[i])) continue;
    if (PairsOf(HashesOf(sample.kept, i), values).AreSurelyEqual()) return i;
  }
  return std::nullopt;
}

bool AreCopies(const DataSample& sample, size_t label) {
  return PairsOf(HashesWithout(sample, {label}), HashesOf(sample.kept, label)).AreEqual();
}

std::optional<size_t> SpreadColumn(const DataSample& sample, size_t label) {
  constexpr double kLargeShare = 0.3;
  constexpr double kRare = 0.03;  // Largest share of random pairs of rows that are equal.
  const auto most = std::ranges::max_element(sample.only_changes);
  const auto column = static_cast<size_t>(most - sample.only_changes.begin());
  if (most == sample.only_changes.end() || column == label ||
      static_cast<double>(*most) < kLargeShare * static_cast<double>(sample.rows)) {
    return std::nullopt;
  }
  const std::vector<uint64_t> groups = HashesWithout(sample, {column, label});
  if (1 - PairsOf(groups, groups).chance > kRare) return std::nullopt;
  const GroupPairs labels = PairsOf(groups, HashesOf(sample.kept, label));
  return labels.AreSurelyEqual() ? std::optional(column) : std::nullopt;
}

}  // namespace simurgh
