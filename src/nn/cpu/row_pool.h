#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simurgh/base/aligned_buffer.h"
#include "simurgh/data/embedding_wire.h"
#include "simurgh/data/row_codec.h"
#include "simurgh/nn/batch_block.h"

namespace simurgh::cpu {

// Pools what comes as rows, and keeps some of the rows in slots, on the threads of
// compute_threads.h.
//
// Threads: one owner.
class RowPool {
 public:
  // Throws std::bad_alloc when there is no memory for the slots.
  explicit RowPool(const EmbeddingWire& wire);

  // Of the slots.
  static size_t BytesFor(const EmbeddingWire& wire);

  // A block of rows: fills its embeddings from what has come and from slots, then the slots that
  // its batch is to fill.
  void Pool(BatchBlock& block);

 private:
  std::byte* slot(uint32_t number) { return slots_.data() + number * slot_bytes_; }

  const RowCodec rows_;
  const size_t slot_bytes_;
  const AlignedBuffer slots_;
  std::vector<const std::byte*> places_;  // Of a batch's rows.
};

}  // namespace simurgh::cpu
