#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "services/api/skipped_rows.h"
#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/data/batch_reader.h"

namespace simurgh {

// What loaders have submitted and the trainer has not taken yet. The trainer takes one batch of
// each loader in turn, leaving out those that have ended: so the order depends on nothing but the
// batches.
//
// Bounded in batches of each loader, and in bytes of all together. A batch has its place before it
// takes the memory: who submits it decodes it then. What the trainer takes next always has one,
// whatever else is here: others cannot go before it has come.
//
// Each loader numbers its batches from 0. One that it repeats is answered as taken, and not kept
// again: so a loader may repeat what it has no answer to, and start anew behind `Open`'s answer.
//
// Threads: any.
class FeedBuffer {
 public:
  enum class Answer {
    kRoom,
    kTaken,
    kWait,   // Until there is room, or for an earlier batch; on_change tells when to ask again.
    kEnough  // The trainer wants no more.
  };

  // Held for a batch that is about to be decoded; free again if it goes before that.
  // Lifetime: not beyond the buffer.
  class Place {
   public:
    Place(Place&& other) noexcept
        : buffer_(std::exchange(other.buffer_, nullptr)),
          loader_(other.loader_),
          bytes_(other.bytes_) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (buffer_ != nullptr) buffer_->Release(loader_, bytes_);
    }

    // Takes the batch, unless the run or its loader has ended meanwhile. skipped: by the loader, up
    // to this batch. Call once.
    void Fill(Batch batch, SkippedRows skipped = {}) {
      std::exchange(buffer_, nullptr)->Fill(loader_, bytes_, std::move(batch), skipped);
    }

   private:
    friend class FeedBuffer;
    Place(FeedBuffer& buffer, uint32_t loader, size_t bytes)
        : buffer_(&buffer), loader_(loader), bytes_(bytes) {}

    FeedBuffer* buffer_;
    uint32_t loader_;
    size_t bytes_;
  };

  struct Reservation {
    Answer answer;
    std::optional<Place> place = {};  // With kRoom.
  };

  // capacity_batches: kept of each loader. capacity_bytes: of all, beside a batch that is taken
  // next. timeout: see Take. max_bad_rows: that all loaders together may leave out in one reading;
  // one more fails the next Take.
  FeedBuffer(size_t loaders, size_t capacity_batches, size_t capacity_bytes,
             std::chrono::milliseconds timeout,
             uint64_t max_bad_rows = std::numeric_limits<uint64_t>::max());

  // Called, from any thread, whenever an answer of kWait may have changed. Before the first
  // Reserve.
  void SetOnChange(std::function<void()> on_change) { on_change_ = std::move(on_change); }

  // A loader begins, or begins anew. How many of its batches have been taken.
  // Errors: INVALID_ARGUMENT for a loader that is none; ABORTED after Fail, with its reason.
  StatusOr<uint64_t> Open(uint32_t loader);

  // A place for a batch that will take so many bytes at most. One of a loader's batches has a place
  // that is not filled.
  // Errors: as Open; FAILED_PRECONDITION for a loader that has not been opened (the trainer is
  // another one than it began with), or that has ended.
  StatusOr<Reservation> Reserve(uint32_t loader, uint64_t number, size_t bytes);

  // The loader has fed all its batches. Repeating it is harmless.
  // Errors: as Reserve; FAILED_PRECONDITION when another number of batches has been taken.
  Status End(uint32_t loader, uint64_t batches, SkippedRows skipped = {});

  // The loader cannot feed its share: the trainer's next Take fails with this reason, whatever else
  // there is. Repeating it is harmless.
  // Errors: as Open.
  Status Abandon(uint32_t loader, std::string_view reason);

  // The trainer's next batch; nothing when all loaders have ended.
  // Errors: INVALID_ARGUMENT with the reason of a loader that cannot go on; DEADLINE_EXCEEDED
  // naming the loader that has fed nothing for the timeout; CANCELLED after Interrupt or Fail.
  StatusOr<std::optional<Batch>> Take();

  // Take ends, now or later. Loaders hear how the run ends by one of the next two.
  void Interrupt();
  // The run has ended well: no more is wanted. Nothing after Fail.
  void Finish();
  // The run has ended before its data. A first reason stays.
  void Fail(std::string reason);

  // After one of those: waits until all loaders that still feed have heard of it, until `deadline`
  // at most.
  void AwaitToldAll(std::chrono::steady_clock::time_point deadline);

  // Bad rows that the loaders have told of, in all readings.
  uint64_t skipped_rows() const;

  // Whether all loaders have ended, and none has fed anything.
  bool ended_empty() const;

  // Of all batches, as reserved, and of places that are held.
  size_t bytes() const;

 private:
  struct Waiting {
    Batch batch;
    size_t bytes = 0;
  };
  struct Loader {
    bool open = false;
    bool ended = false;
    bool told = false;      // That the run is over.
    bool reserved = false;  // Its next batch has a place, and has not come.
    uint64_t taken = 0;     // Batches so far; the first of those waiting is taken - waiting.size().
    std::deque<Waiting> waiting;
    SkippedRows skipped;
  };

  Status Check(uint32_t loader) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the run has ended well, which this loader knows then.
  bool TellIfFinished(uint32_t loader) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string NameOf(size_t loader) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoom(uint32_t loader, size_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fill(uint32_t loader, size_t bytes, Batch batch, SkippedRows skipped);
  void Release(uint32_t loader, size_t bytes);
  void Count(Loader& from, SkippedRows skipped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // On to the next loader that the trainer may get a batch of, if any.
  void PassEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Without the lock.
  void TellChange();
  Status Silence(size_t loader) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t capacity_batches_;
  const size_t capacity_bytes_;
  const std::chrono::milliseconds timeout_;
  const uint64_t max_bad_rows_;
  std::function<void()> on_change_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Loader> loaders_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // The loader whose batch is taken next; one that has ended with nothing left: all have.
  size_t turn_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string abandoned_ ABSL_GUARDED_BY(mutex_);  // Why training must end; empty: it need not.
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<std::string> failure_ ABSL_GUARDED_BY(mutex_);  // Why training has failed.
};

// The trainer's end of a buffer, which must outlive it. An error of Take fails the buffer.
std::unique_ptr<BatchReader> NewFeedReader(FeedBuffer& buffer);

}  // namespace simurgh
