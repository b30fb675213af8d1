#include "table/push_journal.h"

#include "simurgh/base/check.h"

namespace simurgh {

uint64_t PushJournal::ReservationFor(uint64_t max_stride_bytes) {
  return Arena::ReservationFor(sizeof(PushRecord)) +
         Arena::ReservationFor(PushRecord::kMaxRows * max_stride_bytes);
}

PushJournal::PushJournal(Arena& arena, uint64_t max_stride_bytes)
    : arena_(arena),
      record_(*reinterpret_cast<PushRecord*>(arena.at(arena.Reserve(sizeof(PushRecord))))) {
  record_ = {.copies = arena.Reserve(PushRecord::kMaxRows * max_stride_bytes),
             .copy_stride_bytes = max_stride_bytes};
  arena.superblock().push_journal = arena.OffsetOf(&record_);
}

void PushJournal::BeginPush(uint64_t run, uint32_t rank, uint64_t step, uint32_t part,
                            uint32_t parts) {
  record_.run = run;
  record_.rank = rank;
  record_.step = step;
  record_.part = part;
  record_.parts = parts;
  record_.progress = 0;
  Order([&] { record_.state = PushRecord::kApplying; });
}

// No row may be torn here, so nobody asks whose table it is until the group has begun.
void PushJournal::BeginGroup(uint32_t group, uint64_t table_offset, uint64_t first) {
  record_.table = table_offset;
  group_ = group;
  first_ = first;
  Settle(0);
}

void PushJournal::EndPush() {
  Order([&] { record_.state = PushRecord::kIdle; });
}

void PushJournal::Keep(const Rows& table, std::span<const uint32_t> rows) {
  SIMURGH_CHECK_LE(rows.size(), size_t{PushRecord::kMaxRows});
  std::byte* copy = arena_.at(record_.copies);
  for (size_t i = 0; i < rows.size(); ++i) {
    record_.rows[i] = rows[i];
    std::memcpy(copy, table.record(rows[i]), table.layout().stride_bytes);
    copy += record_.copy_stride_bytes;
  }
  Order([&] { record_.progress |= rows.size(); });
}

}  // namespace simurgh
