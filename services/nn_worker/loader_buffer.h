#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "base/status.h"
#include "data/reading/batch_reader.h"

namespace simurgh {

// Batches that loaders have submitted and the trainer has not taken. The trainer takes one batch of
// each loader in turn and skips loaders that have ended, so the order depends on the batches alone.
//
// The buffer bounds the batches of each loader and the bytes of all loaders. A submitter reserves a
// place before it decodes the batch. The batch that the trainer takes next always gets a place:
// until it arrives, the trainer takes no other.
//
// All ranks take equally many batches of each loader, so that a checkpoint has one row for each
// loader.
// A loader whose last step has no batch for this rank gets an empty one in its place.
//
// Each loader numbers its batches from 0. The buffer answers kTaken to a repeated batch and drops
// it. So a loader may repeat unanswered batches, and resume after a restart at `Open`'s answer.
//
// Batches of a stream differ when they are made anew. A loader that reads one continues at the
// offsets of the batches that were taken, and those of an earlier session are refused.
//
// Threads: any.
class LoaderBuffer {
 public:
  enum class Answer {
    kRoom,
    kTaken,
    kWait,   // The batch waits for space or an earlier batch; retry after on_change.
    kEnough  // The trainer needs no more batches.
  };

  // Space for a batch; the destructor releases it unless Fill was called.
  // Lifetime: the buffer outlives it.
  class Place {
   public:
    Place(Place&& other) noexcept
        : buffer_(std::exchange(other.buffer_, nullptr)),
          loader_(other.loader_),
          bytes_(other.bytes_),
          session_(other.session_) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (buffer_ != nullptr) buffer_->Release(loader_, bytes_);
    }

    // Adds the batch, unless the run or its loader has ended. skipped: bad rows of the loader up to
    // this batch. Call once.
    // Errors: FAILED_PRECONDITION if a later session of the loader has begun.
    Status Fill(Batch batch, uint64_t skipped = 0) {
      return std::exchange(buffer_, nullptr)->Fill(*this, std::move(batch), skipped);
    }

   private:
    friend class LoaderBuffer;
    Place(LoaderBuffer& buffer, uint32_t loader, size_t bytes, uint64_t session)
        : buffer_(&buffer), loader_(loader), bytes_(bytes), session_(session) {}

    LoaderBuffer* buffer_;
    uint32_t loader_;
    size_t bytes_;
    uint64_t session_;
  };

  struct Reservation {
    Answer answer;
    std::optional<Place> place = {};  // Set with kRoom only.
  };

  // capacity_batches: maximum per loader. capacity_bytes: maximum of all loaders, without the batch
  // that is taken next. timeout: see Take. begin: where the loaders begin, and the loader whose
  // turn it is.
  LoaderBuffer(size_t loaders, size_t capacity_batches, size_t capacity_bytes,
               std::chrono::milliseconds timeout, DataPosition begin = {});

  struct Opened {
    uint64_t taken = 0;     // Number of batches taken from the loader.
    uint64_t session = 0;   // Counted from 1.
    DataPosition position;  // `begin`, with a stream's offsets after these batches.
  };

  // on_change: called from any thread when an answer of kWait may have changed. Call before the
  // first Reserve.
  void SetOnChange(std::function<void()> on_change) { on_change_ = std::move(on_change); }

  // Notes that a loader starts or restarts.
  // Errors: INVALID_ARGUMENT for a loader out of range; ABORTED after Fail, with its reason.
  StatusOr<Opened> Open(uint32_t loader);

  // Waits until all loaders have been opened or one has been abandoned, at most for `patience`.
  // Returns the names of those that have not been opened; empty if the wait is over.
  std::string AwaitOpen(std::chrono::milliseconds patience);

  // Reserves space for a batch of at most `bytes`; a loader has at most one unfilled place.
  // session: Opened::session for a stream; 0: not compared.
  // Errors: those of Open and Place::Fill; FAILED_PRECONDITION for a loader that has ended, or that
  // has not been opened: the trainer was restarted.
  StatusOr<Reservation> Reserve(uint32_t loader, uint64_t number, size_t bytes,
                                uint64_t session = 0);

  // Notes that a loader has fed all its batches. short_step: its last step has none for this rank.
  // May be repeated.
  // Errors: those of Reserve; FAILED_PRECONDITION when another number of batches has been taken.
  Status End(uint32_t loader, uint64_t batches, uint64_t skipped = 0, bool short_step = false);

  // Notes that a loader cannot feed its share: the trainer's next Take fails with this reason. May
  // be repeated. start_again: whether another start of training may continue.
  // Errors: see Open.
  Status Abandon(uint32_t loader, std::string_view reason, bool start_again = false);

  // Returns the trainer's next batch; nothing when all loaders have ended.
  // Errors: INVALID_ARGUMENT, or ABORTED with start_again, with the reason of Abandon;
  // DEADLINE_EXCEEDED naming the loader that has fed nothing for the timeout; CANCELLED after
  // Interrupt or Fail.
  StatusOr<std::optional<Batch>> Take();

  // Makes Take return an idle batch when there is none, instead of waiting.
  void EndEarly();
  // Cancels Take. Call Finish or Fail afterwards, which answer the loaders.
  void Interrupt();
  // Notes that the run has succeeded: loaders need not feed more. No effect after Fail.
  void Finish();
  // Notes that the run has ended before its data. The first reason counts.
  void Fail(std::string reason);

  // Waits until all loaders that still feed have got the answer, or until `deadline`. Call it after
  // Finish or Fail.
  void AwaitNotifiedAll(std::chrono::steady_clock::time_point deadline);

  // Returns the number of bad rows that the loaders have reported, in all epochs.
  uint64_t skipped_rows() const;

  // Returns whether all loaders have ended without a batch.
  bool ended_empty() const;

  // Returns the reserved bytes of batches and of places.
  size_t bytes() const;

 private:
  struct Waiting {
    Batch batch;
    size_t bytes = 0;
  };
  struct Loader {
    bool open = false;
    bool ended = false;
    bool notified = false;  // An answer has told the loader that the run is over.
    bool reserved = false;  // The next batch has an unfilled place.
    uint64_t session = 0;   // Number of calls of Open.
    StreamOffsets offsets;  // Offsets after the batches taken.
    uint64_t taken = 0;     // Batches so far; the first waiting one is taken - waiting.size().
    std::deque<Waiting> waiting;
    uint64_t skipped = 0;  // Number of bad rows.
  };

  Status Check(uint32_t loader) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether the run has succeeded; marks the loader as notified if so.
  bool NotifyIfFinished(uint32_t loader) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string NameOf(size_t loader) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoom(uint32_t loader, size_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status CheckSession(uint32_t loader, uint64_t session) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status Fill(const Place& place, Batch batch, uint64_t skipped);
  void Release(uint32_t loader, size_t bytes);
  // Advances turn_ to the next loader that may have a batch, if any.
  void EpochEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Call without the lock.
  void NotifyChange();

  const size_t capacity_batches_;
  const size_t capacity_bytes_;
  const std::chrono::milliseconds timeout_;
  const DataPosition begin_;
  std::function<void()> on_change_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Loader> loaders_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // The loader whose batch is taken next. If it has ended and has none left, all loaders have.
  size_t turn_ ABSL_GUARDED_BY(mutex_);
  std::string abandoned_ ABSL_GUARDED_BY(mutex_);  // Why the next Take fails; empty: it does not.
  bool start_again_ ABSL_GUARDED_BY(mutex_) = false;  // Another start may continue; see Abandon.
  bool ends_early_ ABSL_GUARDED_BY(mutex_) = false;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<std::string> failure_ ABSL_GUARDED_BY(mutex_);  // Why training has failed.
};

// Reads from a buffer. An error of Take fails the buffer. Lifetime: the buffer outlives it.
std::unique_ptr<BatchReader> NewLoaderReader(LoaderBuffer& buffer);

}  // namespace simurgh
