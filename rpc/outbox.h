#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include <boost/asio/buffer.hpp>

#include "rpc/async.h"
#include "rpc/frame.h"
#include "rpc/message.h"
#include "rpc/sharing.h"
#include "rpc/stream.h"
#include "rpc/window.h"

namespace simurgh::rpc {

struct OutgoingFrame {
  FrameHeader header;  // Kind and ids; lengths are filled in by the outbox.
  OutgoingMessage message = {};
  // Released when the frame has been written or dropped.
  Gate::Pass pass = {};
  WindowShare share = {};
};

// The queue of frames to write.
//
// Frames leave in order, in batches that are written whole. The payload of a large message leaves
// in CHUNK frames at the end of each batch, round-robin over large messages. A frame thus waits for
// one batch at most. Consecutive payloads of some KiB leave in one CHUNK after the heads of their
// frames.
//
// Threads: one.
class Outbox {
 public:
  // A larger payload leaves in CHUNK frames.
  static constexpr uint64_t kMaxWholeBytes = 262'144;

  // Identifies a frame.
  struct Ticket {
    uint64_t number = 0;
    bool chunked = false;
  };

  // batch_bytes: a batch that has reached it is complete.
  explicit Outbox(uint64_t batch_bytes = Stream::kBatchBytes) : batch_limit_(batch_bytes) {}

  // The peer's HELLO has arrived. From now on large payloads leave in CHUNK frames, and frames have
  // read-ahead hints; payloads are gathered if a peer with these limits accepts the largest chunk.
  void Establish(const FrameLimits& peer);

  // Lends large segments to the peer from now on.
  void Share(std::shared_ptr<Sharing> sharing) { sharing_ = std::move(sharing); }

  // Requires at most kMaxSegments segments.
  Ticket Add(OutgoingFrame&& frame);

  // Payload copied into shared memory, and lent payload of written frames, since the last call.
  struct SharedBytes {
    uint64_t copied = 0;
    uint64_t sent = 0;
  };
  SharedBytes TakeSharedBytes() { return std::exchange(shared_bytes_, {}); }

  // Lent payload of frames that are queued or in the current batch.
  uint64_t borrowed_bytes() const { return borrowed_bytes_; }

  // Removes the part of a frame that is not in a batch yet.
  enum class Withdrawn {
    kWhole,    // Nothing of the frame is sent.
    kRest,     // The peer has part of the payload and waits for more: send CANCEL.
    kNothing,  // The whole frame has left or is in the current batch.
  };
  Withdrawn Withdraw(const Ticket& ticket);

  // Returns whether bytes of the frame remain to be written; after Withdraw(), whether the current
  // batch has some.
  bool Pending(const Ticket& ticket) const;

  bool empty() const { return batch_.empty() && queue_.empty() && bulk_.empty(); }
  // Size of all queued frames and the current batch, with their payloads.
  uint64_t bytes() const { return bytes_; }
  // Frames outside of the current batch.
  size_t waiting_frames() const { return queue_.size(); }

  // The bytes to write next, or empty. Lifetime: until the next Written().
  std::span<const asio::const_buffer> Gather();
  // The first `bytes` bytes of Gather() have been written.
  void Written(size_t bytes);
  // Destroys the owners of written and of copied bytes. Destructors may call into the connection,
  // so no other operation may be in progress.
  void Release() {
    Empty(done_);
    ReleaseCopied();
  }
  void ReleaseCopied() { Empty(copied_); }

  // Drops all frames and their owners. Pending() keeps its results.
  void Drop();

 private:
  struct Bulk;
  // Part of a batch: a frame, the head of a chunked one, or a CHUNK.
  struct Item {
    FrameHeader header;
    absl::InlinedVector<uint64_t, 2> table;
    std::vector<BorrowedSegment> borrowed;  // One per segment, or empty.
    OutgoingMessage message;
    Gate::Pass pass;
    WindowShare share;
    uint64_t number = 0;
    std::shared_ptr<Bulk> bulk;  // Set for a head or a CHUNK.
    uint64_t bulk_offset = 0;    // Start of the bytes of a CHUNK.
    size_t buffers_end = 0;      // The end of its buffers in gathered_.
  };

  // Keeps the capacity, and elements that destructors add.
  template <typename T>
  static void Empty(std::vector<T>& vector) {
    if (vector.empty()) return;
    std::vector<T> old;
    old.swap(vector);
    old.clear();
    if (vector.empty()) vector.swap(old);
  }

  static uint64_t BytesOf(const Item& item);
  static uint64_t BorrowedBytesOf(const Item& item);
  // Lends segments if possible, and empties them.
  void LendSegments(Item& item);
  void Compose();
  void ComposeFrames();
  void GatherPayloads();
  Item GatheredChunk(std::span<Item> messages);
  Item NextChunk(uint64_t room);
  void PadOpening();
  void FillHints();
  void AddBuffers(size_t index);
  void AddBuffer(const void* data, size_t size) {
    if (size != 0) gathered_.emplace_back(data, size);
  }
  void AddPayload(Item& item);
  void NoteWritten(const Item& item);

  const uint64_t batch_limit_;
  bool established_ = false;
  bool may_gather_ = false;
  std::shared_ptr<Sharing> sharing_;
  SharedBytes shared_bytes_;
  uint64_t borrowed_bytes_ = 0;
  std::vector<Item> queue_;                  // Whole frames and heads.
  std::deque<std::shared_ptr<Bulk>> bulk_;   // Chunked messages that are not in batches whole.
  std::vector<std::shared_ptr<Bulk>> open_;  // Chunked messages that are not written whole.
  std::vector<Item> batch_;
  uint64_t batch_bytes_ = 0;
  uint64_t promised_ = 0;   // Bytes without large payload that the next batch must start with.
  std::vector<Item> done_;  // Written batches.
  std::vector<std::shared_ptr<const void>> copied_;  // Owners of bytes copied to shared memory.
  std::vector<asio::const_buffer> gathered_;         // Buffers of batch_.
  size_t buffers_done_ = 0;                          // Buffers of gathered_ that are written.
  size_t items_done_ = 0;                            // Items of batch_ that are written.
  uint64_t bytes_ = 0;
  uint64_t last_number_ = 0;
  uint64_t written_ = 0;  // Number of the last written frame that is not chunked.
};

}  // namespace simurgh::rpc
