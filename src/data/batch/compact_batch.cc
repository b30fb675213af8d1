#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/invalid.h"
#include "data/batch/batch.h"

namespace simurgh {
namespace {

Status CheckShape(const CompactBatch& batch) {
  if (batch.batch_size > kMaxBatchSamples) {
    return Invalid("batch: %d samples exceed the limit of %d", batch.batch_size, kMaxBatchSamples);
  }
  if (batch.occurrences.size() > kMaxBatchOccurrences) {
    return Invalid("batch: %d occurrences exceed the limit of %d", batch.occurrences.size(),
                   kMaxBatchOccurrences);
  }
  if (batch.ids.size() > kMaxBatchOccurrences) {
    return Invalid("batch: %d ids exceed the limit of %d", batch.ids.size(), kMaxBatchOccurrences);
  }
  const uint64_t cells = uint64_t{batch.batch_size} * batch.feature_count();
  if (cells > kMaxBatchCells) {
    return Invalid("batch: %d samples of %d features exceed the limit of %d cells",
                   batch.batch_size, batch.feature_count(), kMaxBatchCells);
  }
  if (batch.offsets.size() != cells + 1) {
    return Invalid("batch: %d offsets, %d features of %d samples need %d", batch.offsets.size(),
                   batch.feature_count(), batch.batch_size, cells + 1);
  }
  return absl::OkStatus();
}

Status CheckOffsets(const CompactBatch& batch) {
  if (batch.offsets.front() != 0) {
    return Invalid("batch: the first offset is %d, must be 0", batch.offsets.front());
  }
  bool drops = false;  // The loop without branches vectorises.
  for (size_t i = 1; i < batch.offsets.size(); ++i) {
    drops |= batch.offsets[i] < batch.offsets[i - 1];
  }
  if (drops) {
    const auto drop = std::is_sorted_until(batch.offsets.begin(), batch.offsets.end());
    const size_t position = drop - batch.offsets.begin();
    return Invalid("batch: feature %d: offset %d is %d, below its predecessor %d",
                   (position - 1) / batch.batch_size, position, *drop, *(drop - 1));
  }
  if (batch.offsets.back() != batch.occurrences.size()) {
    return Invalid("batch: the last offset is %d, must be the number of occurrences, %d",
                   batch.offsets.back(), batch.occurrences.size());
  }
  return absl::OkStatus();
}

Status CheckUniqueEnds(const CompactBatch& batch) {
  const auto& ends = batch.unique_ends;
  const auto drop = std::is_sorted_until(ends.begin(), ends.end());
  if (drop != ends.end()) {
    return Invalid("batch: list %d: its ids end at %d, below the preceding list's %d",
                   drop - ends.begin(), *drop, *(drop - 1));
  }
  const size_t end = ends.empty() ? 0 : ends.back();
  if (end != batch.ids.size()) {
    return Invalid("batch: the last list's ids end at %d, must be the number of ids, %d", end,
                   batch.ids.size());
  }
  return absl::OkStatus();
}

Status CheckLists(const CompactBatch& batch) {
  uint32_t used = 0;
  for (size_t f = 0; f < batch.lists.size(); ++f) {
    if (batch.lists[f] > used || batch.lists[f] >= batch.list_count()) {
      return Invalid(
          "batch: feature %d: reads list %d of %d, expected at most %d; lists are numbered by "
          "first use",
          f, batch.lists[f], batch.list_count(), used);
    }
    if (batch.lists[f] == used) ++used;
  }
  if (!batch.lists.empty() && used != batch.list_count()) {
    return Invalid("batch: no feature reads list %d; there are %d lists", used, batch.list_count());
  }
  return absl::OkStatus();
}

Status CheckWeights(const CompactBatch& batch) {
  if (batch.weights.empty()) return absl::OkStatus();
  if (batch.weights.size() != batch.occurrences.size()) {
    return Invalid("batch: %d weights of %d occurrences; expected one each, or none",
                   batch.weights.size(), batch.occurrences.size());
  }
  const auto bad = std::find_if_not(batch.weights.begin(), batch.weights.end(),
                                    [](float weight) { return std::isfinite(weight); });
  if (bad != batch.weights.end()) {
    return Invalid("batch: the weight of occurrence %d is not finite", bad - batch.weights.begin());
  }
  return absl::OkStatus();
}

// Checks the occurrences. Requires that all other checks passed.
Status CheckOccurrences(const CompactBatch& batch) {
  for (size_t f = 0; f < batch.feature_count(); ++f) {
    const FeatureView view = batch.feature(f);
    if (view.occurrences.empty()) continue;
    uint32_t largest = 0;
    for (const uint32_t occurrence : view.occurrences) largest = std::max(largest, occurrence);
    if (largest >= view.ids.size()) {
      return Invalid("batch: feature %d: occurrence of id number %d, must be below %d", f, largest,
                     view.ids.size());
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::span<const uint64_t> CompactBatch::list(size_t index) const {
  SIMURGH_CHECK_LT(index, list_count());
  const size_t first = index == 0 ? 0 : unique_ends[index - 1];
  return std::span(ids).subspan(first, unique_ends[index] - first);
}

FeatureView CompactBatch::feature(size_t index) const {
  SIMURGH_CHECK_LT(index, feature_count());
  const std::span<const uint64_t> list_ids = list(list_of(index));
  const std::span<const uint32_t> pointers =
      std::span(offsets).subspan(index * batch_size, size_t{batch_size} + 1);
  const size_t count = pointers.back() - pointers.front();
  FeatureView view = {.ids = list_ids,
                      .first_id = static_cast<size_t>(list_ids.data() - ids.data()),
                      .occurrences = std::span(occurrences).subspan(pointers.front(), count),
                      .offsets = pointers};
  if (!weights.empty()) view.weights = std::span(weights).subspan(pointers.front(), count);
  return view;
}

Status CompactBatch::Validate() const {
  SIMURGH_RETURN_IF_ERROR(CheckShape(*this));
  SIMURGH_RETURN_IF_ERROR(CheckOffsets(*this));
  SIMURGH_RETURN_IF_ERROR(CheckUniqueEnds(*this));
  SIMURGH_RETURN_IF_ERROR(CheckLists(*this));
  SIMURGH_RETURN_IF_ERROR(CheckWeights(*this));
  return CheckOccurrences(*this);
}

}  // namespace simurgh
