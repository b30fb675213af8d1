#include "data/row_parser.h"

#include <algorithm>
#include <array>
#include <span>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "simurgh/data/hash_stack.h"

namespace simurgh {

StatusOr<std::vector<std::vector<IdTarget>>> RouteFeatures(
    const std::vector<std::string>& columns, const std::vector<FeatureConfig>& features) {
  std::vector<std::vector<IdTarget>> targets(columns.size());
  for (size_t f = 0; f < features.size(); ++f) {
    const FeatureConfig& feature = features[f];
    const std::string& name = feature.column.empty() ? feature.name : feature.column;
    const auto column = std::find(columns.begin(), columns.end(), name);
    if (column == columns.end()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("feature '%s' names column '%s', which is not there; the columns are %s",
                          feature.name, name, absl::StrJoin(columns, ", ")));
    }
    const HashStackConfig& stack = feature.hash_stack;
    if (stack.rounds > kMaxHashStackRounds || (stack.rounds > 0 && stack.buckets == 0)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "feature '%s': a hash stack of %d rounds of %d buckets; rounds must be at most %d, "
          "buckets at least 1",
          feature.name, stack.rounds, stack.buckets, kMaxHashStackRounds));
    }
    targets[column - columns.begin()].push_back({.feature = f, .hash_stack = stack});
  }
  return targets;
}

void AddIdToTargets(uint64_t id, const std::vector<IdTarget>& targets, BatchBuilder& builder) {
  for (const IdTarget& target : targets) {
    if (target.hash_stack.rounds == 0) {
      builder.AddId(target.feature, id);
      continue;
    }
    std::array<uint64_t, kMaxHashStackRounds> storage;
    const std::span<uint64_t> rows = std::span(storage).first(target.hash_stack.rounds);
    HashStackRows(target.hash_stack, id, rows);
    for (const uint64_t row : rows) builder.AddId(target.feature, row);
  }
}

std::string Quoted(std::string_view cell) {
  constexpr size_t kShownBytes = 64;
  const std::string_view shown = cell.substr(0, kShownBytes);
  return absl::StrCat("'", absl::CHexEscape(absl::string_view(shown.data(), shown.size())),
                      shown.size() < cell.size() ? "..." : "", "'");
}

}  // namespace simurgh
