#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/micro/table/fetching.h"
#include "bench/micro/table/huge_memory.h"
#include "bench/micro/table/subject.h"
#include "table/row_layout.h"

namespace simurgh::bench {

// Plain loops over an index and rows with headers. They read and write the same cache lines as the
// table, the index's first and then the records', but at known positions. They hash and compare
// nothing, and every id is present. This is no upper bound: the table's loops are specialised for
// the size of a row.
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
  // Reads the index's lines of some ids; answers their rows.
  const uint32_t* Find(const Batch& batch, size_t begin, size_t count);

  RowKind kind_;
  uint64_t index_lines_;
  HugeMemory records_;
  Rows rows_;  // In `records_`.
  HugeMemory index_;
  std::vector<uint32_t> found_;
  Fetching pull_fetching_;
  Fetching push_fetching_;
};

}  // namespace simurgh::bench
