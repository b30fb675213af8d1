#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/micro/table/fetching.h"
#include "bench/micro/table/huge_memory.h"
#include "bench/micro/table/subject.h"

namespace simurgh::bench {

// What a table with an index and rows behind headers comes to at best: it reads the same cache
// lines as the table, an index's first and then the records', and writes the same, but knows where
// everything lies. It hashes and compares nothing, and nobody is absent.
//
// Threads: one at a time.
class BareTable : public Subject {
 public:
  // Requires rows whose numbers are all f32.
  BareTable(uint64_t rows, const RowKind& kind);

  void Pull(const Batch& batch, float* out) override;
  void Push(const Batch& batch, const float* gradients) override;

  // The best way is found by trying.
  void set_pull_fetching(Fetching fetching) { pull_fetching_ = fetching; }
  void set_push_fetching(Fetching fetching) { push_fetching_ = fetching; }

 private:
  uint64_t stride_bytes() const;
  std::byte* record(uint32_t row) const { return records_.base() + row * stride_bytes(); }
  // Reads the index's lines of some ids; answers their rows.
  const uint32_t* Find(const Batch& batch, size_t begin, size_t count);

  RowKind kind_;
  uint64_t index_lines_;
  HugeMemory records_;
  HugeMemory index_;
  std::vector<uint32_t> found_;
  Fetching pull_fetching_;
  Fetching push_fetching_;
};

}  // namespace simurgh::bench
