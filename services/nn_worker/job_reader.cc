#include "services/nn_worker/job_reader.h"

#include <span>
#include <utility>

#include "absl/strings/str_cat.h"

#include "simurgh/base/log.h"

namespace simurgh {
namespace {

class JobReader final : public BatchReader {
 public:
  JobReader(std::unique_ptr<BatchReader> reader, const RawMasks& masks, Counter& skipped_rows,
            LabelCounts* labels)
      : reader_(std::move(reader)), masks_(masks), skipped_rows_(skipped_rows), labels_(labels) {}

  ~JobReader() override {
    if (labels_ == nullptr) return;
    for (const std::string& warning : labels_->Warnings()) spdlog::warn("{}", warning);
  }
  JobReader(const JobReader&) = delete;
  JobReader& operator=(const JobReader&) = delete;

  StatusOr<std::optional<Batch>> Next() override {
    StatusOr<std::optional<Batch>> batch = reader_->Next();
    skipped_rows_.Add(reader_->skipped_rows() - counted_);
    counted_ = reader_->skipped_rows();
    if (!batch.ok() || !batch->has_value() || (*batch)->size() == 0) return batch;
    if (labels_ != nullptr) labels_->Add((*batch)->dense);
    masks_.AppendTo(**batch);
    return batch;
  }

  uint64_t skipped_rows() const override { return reader_->skipped_rows(); }
  void Stop() override { reader_->Stop(); }

 private:
  std::unique_ptr<BatchReader> reader_;
  const RawMasks& masks_;
  Counter& skipped_rows_;
  LabelCounts* const labels_;
  uint64_t counted_ = 0;
};

}  // namespace

void LabelCounts::Add(const DenseBatch& batch) {
  const size_t tasks = columns_.size();
  if (samples_ == 0) {
    const auto first = std::span(batch.labels).first(tasks);
    first_.assign(first.begin(), first.end());
  }
  samples_ += batch.batch_size;
  for (size_t i = 0; i < batch.batch_size * tasks; ++i) {
    if (batch.labels[i] != first_[i % tasks]) differs_[i % tasks] = true;
  }
}

std::vector<std::string> LabelCounts::Warnings() const {
  std::vector<std::string> warnings;
  for (size_t task = 0; task < columns_.size() && samples_ > 0; ++task) {
    if (differs_[task]) continue;
    warnings.push_back(absl::StrCat("all ", samples_, " training labels of column '",
                                    columns_[task], "' that this rank read are ", first_[task],
                                    "; check the column, and `positive` if its labels are texts"));
  }
  return warnings;
}

std::unique_ptr<BatchReader> NewJobReader(std::unique_ptr<BatchReader> reader,
                                          const RawMasks& masks, Counter& skipped_rows,
                                          LabelCounts* labels) {
  return std::make_unique<JobReader>(std::move(reader), masks, skipped_rows, labels);
}

}  // namespace simurgh
