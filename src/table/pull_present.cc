// How a training pull reads existing rows.

#include <array>
#include <bit>

#include "table/simd/gather_rows.h"
#include "table/table_state.h"

namespace simurgh {

void Table::State::PullPresent(std::span<const uint64_t> ids, EncodedRows to, uint32_t now) {
  absent.clear();
  RowStore::Reader reader(store, to.precision());
  const auto pull_one = [&](size_t at, uint32_t row) {
    if (row == kNoRow || !Claim(row, /*keeps_stamp=*/false)) {
      absent.push_back(at);
      return;
    }
    if (at % kAgeEvery == 0) ++counts.pulled_before[std::bit_width(now - rows.header(row).recency)];
    Touch(row, now);
    reader.Add(row, to.row(at));
  };
  if (to.precision() != store.format().weights) {
    lookup.ForEach(ids, PulledBytes(), pull_one);
  } else {
    const RowGather gather = {.rows = rows,
                              .stamp = now,
                              .suspect_below = suspect_below,
                              .ages = counts.pulled_before.data()};
    lookup.ForEachBlock(
        ids, [&](size_t begin, std::span<const uint64_t> block, const uint32_t* candidates) {
          std::array<uint16_t, BatchLookup::kBlock> rest;
          const size_t left =
              GatherRows(gather, block, candidates, to.Rows(begin, block.size()), rest.data());
          for (size_t i = 0; i < left; ++i) {
            pull_one(begin + rest[i], lookup.Confirmed(candidates[rest[i]], block[rest[i]]));
          }
        });
  }
  reader.Flush();
}

}  // namespace simurgh
