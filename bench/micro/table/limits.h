#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/micro/table/fetching.h"
#include "bench/micro/table/huge_memory.h"
#include "bench/micro/table/subject.h"

namespace simurgh::bench {

// What the machine itself can do: the copies and updates of a batch with the row numbers known, the
// rows side by side without header or index, memory touched before, in huge pages.
//
// Threads: const members from any, on batches of different rows.
class BareRows {
 public:
  BareRows(uint64_t rows, const RowKind& kind);

  // Positions of rows by number. Copied into loops, so that the compiler knows that no write
  // changes it.
  class Destinations {
   public:
    std::byte* operator()(uint32_t number) const { return first_ + number * stride_bytes_; }

   private:
    friend class BareRows;
    Destinations(std::byte* first, uint64_t stride_bytes)
        : first_(first), stride_bytes_(stride_bytes) {}

    std::byte* first_;
    uint64_t stride_bytes_;
  };

  uint64_t rows() const { return rows_; }
  // Weights and state of each row.
  Destinations places() const { return {memory_.base(), kind_.format.bytes()}; }

  // Weights alone, packed.
  void Gather(const Batch& batch, float* out) const;
  // Weights and state, gradients read one after the other.
  void Update(const Batch& batch, const float* gradients) const;

  // The best way is found by trying.
  void set_gather_fetching(Fetching fetching) { gather_fetching_ = fetching; }
  void set_update_fetching(Fetching fetching) { update_fetching_ = fetching; }

 private:
  // Weights of each row, packed.
  Destinations packed() const { return {memory_.base(), kind_.format.weight_bytes()}; }

  RowKind kind_;
  uint64_t rows_;
  HugeMemory memory_;
  Fetching gather_fetching_;
  Fetching update_fetching_;
};

}  // namespace simurgh::bench
