#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "data/reading/batch_reader.h"

namespace simurgh::testing {

// A limited number of batches of kSamples samples without ids.
class FewBatches : public BatchReader {
 public:
  static constexpr size_t kSamples = 4;

  explicit FewBatches(uint64_t count) : count_(count) {}

  StatusOr<std::optional<Batch>> Next() override {
    if (given_++ == count_) return std::nullopt;
    auto sparse = std::make_shared<CompactBatch>();
    sparse->batch_size = kSamples;
    return Batch{
        .sparse = sparse,
        .dense = {
            .batch_size = kSamples, .width = 1, .values = {1, 2, 3, 4}, .labels = {0, 1, 0, 1}}};
  }
  uint64_t skipped_rows() const override { return 0; }

 private:
  const uint64_t count_;
  uint64_t given_ = 0;
};

}  // namespace simurgh::testing
