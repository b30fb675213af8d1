#include "tests/unit/train/row_port.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "simurgh/base/random.h"

namespace simurgh::testing {

RowPort::RowPort(const RowCodec& code, Options options)
    : code_(code), options_(std::move(options)), deaths_(options_.deaths), calls_(options_.calls) {}

void RowPort::Submit(std::shared_ptr<const CompactBatch> batch, const SubmitOptions& terms,
                     std::function<void(StatusOr<BatchReference>)> done) {
  calls_.Submit(batch, terms,
                [this, batch, done = std::move(done)](StatusOr<BatchReference> reference) {
                  if (reference.ok()) {
                    const MutexLock lock(mutex_);
                    batches_[reference->number] = batch;
                    reference->worker = reference->number % epochs_.size();
                    reference->worker_incarnation = epochs_[reference->worker];
                  }
                  done(reference);
                });
}

Status RowPort::Ask(const BatchReference& reference) {
  const MutexLock lock(mutex_);
  if (Lives(reference)) return absl::OkStatus();
  ++lost_;
  return absl::UnavailableError("the worker is gone");
}

void RowPort::Pull(BatchReference reference, const PullOptions& terms, EmbeddingBuffer target,
                   std::function<void(StatusOr<PullAnswer>)> done) {
  const uint64_t step = terms.position.step;
  std::shared_ptr<const CompactBatch> batch;
  {
    const MutexLock lock(mutex_);
    if (deaths_.erase(step) > 0) ++epochs_[reference.worker];
    batch = batches_.at(reference.number);
  }
  std::ranges::fill(target.bytes, std::byte{0xff});
  Status asked = Ask(reference);
  if (!asked.ok()) return done(std::move(asked));
  const auto unused = std::make_shared<std::array<float, 1>>();
  EmbeddingBuffer rows(VectorPrecision::kF32, std::as_writable_bytes(std::span(*unused)), unused);
  rows.form = EmbeddingForm::kRows;
  calls_.Pull(reference, terms, std::move(rows),
              [this, reference, step, batch, target = std::move(target),
               done = std::move(done)](StatusOr<PullAnswer> answer) {
                if (!answer.ok()) return done(std::move(answer));
                Status answered = Ask(reference);
                if (!answered.ok()) return done(std::move(answered));
                Answer(step, *batch, target);
                done(std::move(answer));
              });
}

void RowPort::Answer(uint64_t step, const CompactBatch& batch, const EmbeddingBuffer& target) {
  {
    const MutexLock lock(mutex_);
    number_of_pull_[step] = answered_++;
  }
  const auto rows = RowsOf(step, batch);
  auto to = target.bytes.begin();
  for (size_t id = 0; id < rows.size(); ++id) {
    const bool is_here = !target.here.empty() && (target.here[id / 64] >> (id % 64) & 1U) != 0;
    if (!is_here) to = std::ranges::copy(rows[id], to).out;
  }
  SIMURGH_CHECK(to == target.bytes.end());
}

std::vector<std::vector<std::byte>> RowPort::RowsOf(uint64_t step,
                                                    const CompactBatch& batch) const {
  uint64_t number = 0;
  {
    const MutexLock lock(mutex_);
    number = number_of_pull_.at(step);
  }
  std::vector<std::vector<std::byte>> rows;
  size_t list = 0;
  code_.ForEachId(batch, [&](size_t id, const VectorCodec& code) {
    while (id >= batch.unique_ends[list]) ++list;
    // Of the row's key and the pull.
    Random random((number * 16 + options_.tables[list]) * 1'000 + batch.ids[id]);
    std::vector<float> numbers(code.columns());
    for (float& value : numbers) value = static_cast<float>(random.Normal());
    if (step == options_.bad_step && batch.ids[id] % 4 == 0) {
      numbers[0] = std::numeric_limits<float>::quiet_NaN();
    }
    code.Encode({numbers.data(), 1, numbers.size()}, 1, std::nullopt,
                rows.emplace_back(code.row_bytes()));
  });
  return rows;
}

void RowPort::Push(BatchReference reference, StepId position, GradientBuffer gradients,
                   std::function<void(Status)> done) {
  Status asked = Ask(reference);
  if (!asked.ok()) return done(std::move(asked));
  {
    const MutexLock lock(mutex_);
    const std::span<const float> values = gradients.floats();
    pushed_[position.step] = {values.begin(), values.end()};
  }
  // As it expects them.
  const auto expected = std::make_shared<float>(static_cast<float>(position.step) + 0.5F);
  GradientBuffer marks(VectorPrecision::kF32, 1, std::as_bytes(std::span(expected.get(), 1)),
                       expected);
  marks.argmax = gradients.argmax;
  calls_.Push(reference, position, std::move(marks),
              [this, reference, done = std::move(done)](Status status) {
                if (status.ok()) status = Ask(reference);
                done(std::move(status));
              });
}

std::map<uint64_t, std::vector<float>> RowPort::pushed() const {
  const MutexLock lock(mutex_);
  return pushed_;
}

uint64_t RowPort::lost() const {
  const MutexLock lock(mutex_);
  return lost_;
}

}  // namespace simurgh::testing
