#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/status.h"
#include "data/batch/batch.h"
#include "data/reading/batch_reader.h"

namespace simurgh {

// Mixes batches of older rows into those of a reader, at equal distances: `share` of all batches.
// Their progress is that of the batch before. The first and the last batch are the reader's.
class ReplayReader final : public BatchReader {
 public:
  // Opens the older rows. time: number of times they were opened before.
  using OpenOld = std::function<StatusOr<std::unique_ptr<BatchReader>>(uint32_t time)>;

  // Requires share in [0, 1). least: samples of an older batch; smaller ones are left out.
  ReplayReader(std::unique_ptr<BatchReader> reader, OpenOld open_old, double share, size_t least)
      : reader_(std::move(reader)),
        open_old_(std::move(open_old)),
        per_batch_(share / (1 - share)),
        least_(least) {}

  StatusOr<std::optional<Batch>> Next() override;
  uint64_t skipped_rows() const override {
    return reader_->skipped_rows() + skipped_old_rows_ +
           (old_ == nullptr ? 0 : old_->skipped_rows());
  }
  void Stop() override { reader_->Stop(); }

 private:
  // Returns the next older batch, and begins again at their end. Errors: INVALID_ARGUMENT for no
  // rows.
  StatusOr<Batch> NextOld();

  const std::unique_ptr<BatchReader> reader_;
  const OpenOld open_old_;
  const double per_batch_;  // Older batches for each batch of the reader.
  const size_t least_;
  double due_ = 0;
  ShareProgress progress_;
  std::optional<Batch> next_;  // Is read ahead, so that no older batch follows the last one.
  std::unique_ptr<BatchReader> old_;
  uint32_t times_ = 0;
  uint64_t skipped_old_rows_ = 0;
};

}  // namespace simurgh
