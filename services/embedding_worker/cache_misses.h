#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "services/api/row_payload.h"
#include "services/embedding_worker/row_wire.h"
#include "simurgh/feature/batch_plan.h"

namespace simurgh {

// What a plan asks of its servers, where some of its rows are known.
//
// is_known(group, ids of the run, index among them, place of its row among the plan's floats) is
// asked for every row, in their order. ids, places: room for all of the plan's ids; set to those of
// the request, and to where the floats of each belong.
template <typename IsKnown>
RowRequest RequestCacheMisses(const BatchPlan& plan, RowPrecision precision,
                              std::span<uint64_t> ids, std::span<uint64_t> places,
                              const IsKnown& is_known) {
  RowRequest request;
  size_t missing = 0;
  size_t place = 0;
  for (const ServerShare& share : plan.servers) {
    std::vector<RowGroup> groups = share.groups;
    const auto all = std::span(plan.ids).subspan(share.first_id, share.id_count);
    api::ForEachRun(share.groups, [&](size_t p, size_t g, size_t first, size_t count, size_t) {
      RowGroup& group = groups[g];
      const std::span<const uint64_t> run = all.subspan(first, count);
      const size_t before = missing;
      for (size_t i = 0; i < count; ++i, place += group.dim) {
        if (is_known(group, run, i, place)) continue;
        ids[missing] = run[i];
        places[missing++] = place;
      }
      group.counts[p] = static_cast<uint32_t>(missing - before);
    });
    for (RowGroup& group : groups) group.precision = precision;
    request.Add(std::move(groups));
  }
  return request;
}

}  // namespace simurgh
