#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>

#include "table/arena.h"
#include "table/row_layout.h"
#include "table/superblock.h"

namespace simurgh {

// Writes into a shared arena what a push is doing, so that whoever maps the arena after a kill can
// put torn rows back and knows where to go on.
//
// A signal ends a process between two instructions, hence everything up to there is in the file:
// only the compiler must keep the order.
//
// Threads: one owner.
// Lifetime: `arena` stays.
class PushJournal {
 public:
  // max_stride_bytes: of all tables of the partition.
  PushJournal(Arena& arena, uint64_t max_stride_bytes);

  static uint64_t ReservationFor(uint64_t max_stride_bytes);

  void BeginPush(uint64_t run, uint32_t rank, uint64_t step, uint32_t part, uint32_t parts);
  // The following rows are of this group of the push, from its id number `first` on: those before
  // it are settled. Groups ascend, and are fewer than 65,536.
  void BeginGroup(uint32_t group, uint64_t table_offset, uint64_t first);
  void EndPush();

  // Copies `rows`, which are going to be changed. At most PushRecord::kMaxRows.
  void Keep(const Rows& table, std::span<const uint32_t> rows);
  // They have been changed, and `count` ids from BeginGroup's `first` on are settled.
  void Settle(uint64_t count) {
    Order([&] { record_.progress = uint64_t{group_} << 48 | (first_ + count) << 8; });
  }

 private:
  // Stores before and after stay on their side.
  template <typename Store>
  static void Order(const Store& store) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    store();
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  Arena& arena_;
  PushRecord& record_;
  uint32_t group_ = 0;
  uint64_t first_ = 0;
};

}  // namespace simurgh
