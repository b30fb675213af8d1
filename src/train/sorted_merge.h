#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "absl/functional/function_ref.h"

#include "collective/collective.h"

namespace simurgh {

// Merges the sorted runs of all ranks: every rank gets every element, in ascending order. Ranks
// exchange the runs in pieces, so that memory does not grow with the runs.
//
// max_elements: maximum in memory, of all ranks together; at least one per rank.
// Cost: at most one exchange per piece of the runs; sends an element again while other ranks have
// many smaller ones. Errors: of the collective.
template <typename T>
Status MergeSorted(Collective& collective, std::span<const T> run, size_t max_elements,
                   absl::FunctionRef<void(const T&)> consume) {
  static_assert(std::is_trivially_copyable_v<T>);
  const size_t ranks = collective.ranks();
  if (ranks == 1) {
    for (const T& element : run) consume(element);
    return absl::OkStatus();
  }
  const auto gather = [&]<typename U>(std::span<const U> own, std::span<U> all) {
    return collective.Gather(Channel::kStep, std::as_bytes(own), std::as_writable_bytes(all));
  };
  std::vector<uint64_t> left(ranks);  // Elements of each rank that no rank has consumed.
  const uint64_t own_count = run.size();
  SIMURGH_RETURN_IF_ERROR(gather(std::span(&own_count, 1), std::span(left)));
  const size_t piece =
      std::min<size_t>(std::max<size_t>(max_elements / ranks, 1), *std::ranges::max_element(left));
  std::vector<T> own(piece);
  std::vector<T> all(piece * ranks);
  std::vector<T> ready;
  while (std::ranges::any_of(left, [](uint64_t count) { return count > 0; })) {
    std::ranges::copy(run.first(std::min(piece, run.size())), own.begin());
    SIMURGH_RETURN_IF_ERROR(gather(std::span<const T>(own), std::span(all)));
    // `all` contains every element below it.
    std::optional<T> bound;
    for (size_t rank = 0; rank < ranks; ++rank) {
      const T& last = all[(rank + 1) * piece - 1];
      if (left[rank] > piece && (!bound || last < *bound)) bound = last;
    }
    ready.clear();
    for (size_t rank = 0; rank < ranks; ++rank) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * piece);
      const auto end = begin + static_cast<std::ptrdiff_t>(std::min<uint64_t>(piece, left[rank]));
      const auto ready_end = bound ? std::upper_bound(begin, end, *bound) : end;
      ready.insert(ready.end(), begin, ready_end);
      const auto count = static_cast<size_t>(ready_end - begin);
      left[rank] -= count;
      if (rank == collective.rank()) run = run.subspan(count);
    }
    std::ranges::sort(ready);
    for (const T& element : ready) consume(element);
  }
  return absl::OkStatus();
}

}  // namespace simurgh
