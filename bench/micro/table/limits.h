#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/micro/table/huge_memory.h"
#include "bench/micro/table/subject.h"

namespace simurgh::bench {

// How rows come near before they are used.
struct Fetching {
  size_t rows = 16;
  // Whether, while so many rows are used, the next so many are fetched at once, the first lines of
  // all before their other ones; else each row is fetched so many rows ahead of its use.
  bool in_lots = false;
};

// What the machine itself can do: the copies and updates of a batch with the row numbers known, the
// rows side by side without header or index, memory touched before, in huge pages.
//
// Threads: const members from any, on batches of different rows.
class BareRows {
 public:
  BareRows(uint64_t rows, const RowKind& kind);

  uint64_t rows() const { return rows_; }
  // Weights and state of a row.
  std::byte* row(uint32_t number) const {
    return memory_.base() + uint64_t{number} * kind_.format.bytes();
  }
  // The same where all are f32.
  float* floats(uint32_t number) const { return reinterpret_cast<float*>(row(number)); }

  // Weights alone, packed.
  void Gather(const Batch& batch, float* out) const;
  // Weights and state, gradients read one after the other.
  void Update(const Batch& batch, const float* gradients) const;

  // The best way is found by trying.
  void set_gather_fetching(Fetching fetching) { gather_fetching_ = fetching; }
  void set_update_fetching(Fetching fetching) { update_fetching_ = fetching; }

 private:
  const std::byte* packed(uint32_t number) const {
    return memory_.base() + uint64_t{number} * kind_.format.weight_bytes();
  }

  RowKind kind_;
  uint64_t rows_;
  HugeMemory memory_;
  Fetching gather_fetching_;
  Fetching update_fetching_;
};

// Brings `bytes` from `begin` on near.
inline void PrefetchBytes(const void* begin, size_t bytes) {
  const auto* line = static_cast<const std::byte*>(begin);
  const std::byte* end = line + bytes;
  line -= reinterpret_cast<uintptr_t>(line) % 64;
  for (; line < end; line += 64) __builtin_prefetch(line, 1);
}

}  // namespace simurgh::bench
