#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "simurgh/data/compact_batch.h"
#include "simurgh/data/embedding_wire.h"
#include "simurgh/data/kept_rows.h"

namespace simurgh::testing {

// What a network does with batches of rows before its first layer: pools them, and keeps some in
// slots. What it writes is full of ones before.
class RowPooler {
 public:
  virtual ~RowPooler() = default;

  // A batch's embeddings, (B, sum of widths). coming: its rows as RowCodec has them, but for those
  // that are kept.
  virtual std::vector<float> Pool(std::shared_ptr<const CompactBatch> ids,
                                  std::shared_ptr<const KeptRows> kept,
                                  const std::vector<std::byte>& coming) = 0;
};

// By kernels on a device or on the host, or as the CPU's network: every program that compiles the
// tests of it has its own.
std::unique_ptr<RowPooler> NewTestPooler(const EmbeddingWire& wire);

}  // namespace simurgh::testing
