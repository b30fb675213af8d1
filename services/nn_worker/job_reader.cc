#include "services/nn_worker/job_reader.h"

#include <utility>

namespace simurgh {
namespace {

class JobReader final : public BatchReader {
 public:
  JobReader(std::unique_ptr<BatchReader> reader, const RawMasks& masks, Counter& skipped_rows,
            IdOverlapReport* id_overlap)
      : reader_(std::move(reader)),
        masks_(masks),
        skipped_rows_(skipped_rows),
        id_overlap_(id_overlap) {}

  StatusOr<std::optional<Batch>> Next() override {
    StatusOr<std::optional<Batch>> batch = reader_->Next();
    skipped_rows_.Add(reader_->skipped_rows() - counted_);
    counted_ = reader_->skipped_rows();
    if (!batch.ok() || !batch->has_value()) return batch;
    masks_.AppendTo(**batch);
    if (id_overlap_ != nullptr) id_overlap_->Add(*(*batch)->sparse);
    return batch;
  }

  uint64_t skipped_rows() const override { return reader_->skipped_rows(); }
  void Stop() override { reader_->Stop(); }

 private:
  std::unique_ptr<BatchReader> reader_;
  const RawMasks& masks_;
  Counter& skipped_rows_;
  IdOverlapReport* const id_overlap_;
  uint64_t counted_ = 0;
};

}  // namespace

std::unique_ptr<BatchReader> NewJobReader(std::unique_ptr<BatchReader> reader,
                                          const RawMasks& masks, Counter& skipped_rows,
                                          IdOverlapReport* id_overlap) {
  return std::make_unique<JobReader>(std::move(reader), masks, skipped_rows, id_overlap);
}

}  // namespace simurgh
