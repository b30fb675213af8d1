#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "data/batch/batch.h"
#include "embedding/vector_codec.h"

namespace simurgh::testing {

// Pools batches of rows, as a network does before its first layer. The output is initially ones.
class RowPooler {
 public:
  virtual ~RowPooler() = default;

  // A batch's embeddings, (B, sum of widths). encoded: its rows, of RowCodec.
  virtual std::vector<float> Pool(std::shared_ptr<const CompactBatch> ids,
                                  const std::vector<std::byte>& encoded) = 0;
};

// By kernels on a device or on the host, or as the CPU backend; each test program links one.
std::unique_ptr<RowPooler> NewTestPooler(const EmbeddingWire& wire);

}  // namespace simurgh::testing
