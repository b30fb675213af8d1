#include "train/loader.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "telemetry/timeline.h"

namespace simurgh {

Loader::Loader(OpenEpoch open, LoaderOptions options, BatchPipeline& pipeline)
    : open_(std::move(open)),
      options_(options),
      pipeline_(pipeline),
      epochs_(options.completed_epochs),
      thread_([this] {
        SetThreadName("loader");
        LowerPriority();  // Batches are read ahead; all ranks wait for the slowest computation.
        const Status status = Load();
        CloseReader();
        pipeline_.EndInput(status);
      }) {}

Loader::~Loader() {
  pipeline_.Stop();
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    if (reader_ != nullptr) reader_->Stop();
  }
  thread_.join();
}

StatusOr<BatchReader*> Loader::OpenNext(uint32_t epoch) {
  CloseReader();
  SIMURGH_ASSIGN_OR_RETURN(std::unique_ptr<BatchReader> reader, open_(epoch));
  MutexLock lock(mutex_);
  reader_ = std::move(reader);
  return stopped_ ? nullptr : reader_.get();
}

void Loader::CloseReader() {
  MutexLock lock(mutex_);
  reader_.reset();
}

StatusOr<std::optional<Batch>> Loader::NextOf(BatchReader& reader) {
  while (true) {
    std::optional<TimelineSpan> span(std::in_place, "read", options_.first_batch + agreed_);
    SIMURGH_ASSIGN_OR_RETURN(std::optional<Batch> batch, reader.Next());
    span.reset();
    const bool is_short = batch && !batch->idle && batch->size() < options_.batch_size;
    if (options_.drop_last && is_short) batch.reset();
    SIMURGH_ASSIGN_OR_RETURN(batch, Agree(std::move(batch)));
    if (!batch) return batch;
    if (batch->idle) continue;
    if (options_.add_negatives) {
      SIMURGH_RETURN_IF_ERROR(options_.add_negatives(options_.first_batch + agreed_ - 1, *batch));
    }
    if (options_.two_towers != nullptr) SetKeys(*options_.two_towers, *batch);
    return batch;
  }
}

bool Loader::Evaluates() const {
  const uint64_t steps = options_.first_batch + agreed_;
  return (options_.evaluate_every_steps > 0 && steps % options_.evaluate_every_steps == 0) ||
         (epoch_ended_ && options_.evaluate_every_epochs > 0 &&
          epochs_ % options_.evaluate_every_epochs == 0);
}

StatusOr<std::optional<Batch>> Loader::Agree(std::optional<Batch> own) {
  constexpr uint64_t kEndsEarly = uint64_t{1} << 63;
  constexpr uint64_t kCheckpoint = uint64_t{1} << 62;
  constexpr uint64_t kIdle = uint64_t{1} << 61;
  const bool ends = options_.ends_early != nullptr && *options_.ends_early;
  // The model of the first step exists already.
  due_ = due_ || (options_.checkpoints != nullptr && agreed_ > marked_ &&
                  options_.checkpoints->IsDue(options_.first_batch + agreed_, Evaluates()));
  const uint64_t word = (own ? own->size() : 0) | (ends ? kEndsEarly : 0) |
                        (due_ ? kCheckpoint : 0) | (own && own->idle ? kIdle : 0);
  std::vector<uint64_t> words{word};
  if (options_.ranks != nullptr) {
    words.resize(options_.ranks->ranks());
    SIMURGH_RETURN_IF_ERROR(options_.ranks->Gather(Channel::kLoading,
                                                   std::as_bytes(std::span(&word, 1)),
                                                   std::as_writable_bytes(std::span(words))));
  }
  const bool any_ends =
      std::ranges::any_of(words, [](uint64_t one) { return (one & kEndsEarly) != 0; });
  const bool checkpoint = (words[0] & kCheckpoint) != 0;
  // Loaders are idle for all ranks of a step.
  const bool is_idle = (words[0] & kIdle) != 0;
  for (uint64_t& one : words) one &= ~(kEndsEarly | kCheckpoint | kIdle);
  const uint64_t samples = std::reduce(words.begin(), words.end());
  const bool any_ended = std::ranges::find(words, uint64_t{0}) != words.end();
  // First, since the end of an epoch would be lost with an early end.
  if (!is_idle && (samples == 0 || (options_.drop_last && any_ended))) return std::nullopt;
  if (any_ends) {
    ended_early_ = true;
    return std::nullopt;
  }
  if (is_idle) {
    if (own) Advance(idle_offsets_, own->progress.offsets);
    // With mark_epoch_ends, a batch waits for the next one.
    if (checkpoint && !options_.mark_epoch_ends) {
      pipeline_.Mark();
      marked_ = agreed_;
      due_ = false;
    }
    return own;
  }
  if (own) progress_ = own->progress;
  if (!own || own->size() == 0) {
    auto sparse = std::make_shared<CompactBatch>();
    sparse->offsets = {0};
    sparse->unique_ends.resize(options_.features);
    own = Batch{.sparse = std::move(sparse),
                .dense = {.width = options_.dense_width, .tasks = options_.tasks},
                .progress = progress_};
  }
  Advance(own->progress.offsets, std::exchange(idle_offsets_, {}));
  if (options_.ranks != nullptr) own->global_samples = samples;
  own->checkpoint_before = checkpoint;
  ++agreed_;
  due_ = epoch_ended_ = false;
  return own;
}

Status Loader::Load() {
  uint64_t batches = options_.first_batch;
  if (options_.max_batches > 0 && batches >= options_.max_batches) return absl::OkStatus();
  for (uint32_t epoch = options_.first_epoch; epoch < options_.epochs; ++epoch) {
    SIMURGH_ASSIGN_OR_RETURN(BatchReader * reader, OpenNext(epoch));
    if (reader == nullptr) return absl::OkStatus();
    SIMURGH_ASSIGN_OR_RETURN(std::optional<Batch> batch, NextOf(*reader));
    // Further epochs are empty, too. The first one may have been read.
    if (!batch && epoch > options_.first_epoch) return absl::OkStatus();
    while (batch) {
      std::optional<Batch> following;
      if (options_.mark_epoch_ends) {
        SIMURGH_ASSIGN_OR_RETURN(following, NextOf(*reader));
        batch->ends_epoch = epoch_ended_ = !following && !ended_early_;
        epochs_ += epoch_ended_ ? 1 : 0;
      }
      if (!pipeline_.Feed(*std::move(batch))) {
        reader->Stop();  // Training stopped; the data has not ended.
        return absl::OkStatus();
      }
      if (++batches == options_.max_batches) return absl::OkStatus();
      if (!options_.mark_epoch_ends) {
        SIMURGH_ASSIGN_OR_RETURN(following, NextOf(*reader));
      }
      batch = std::move(following);
    }
    if (ended_early_) {
      reader->Stop();
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

}  // namespace simurgh
