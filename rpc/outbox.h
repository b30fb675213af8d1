#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include <boost/asio/buffer.hpp>

#include "rpc/frame.h"
#include "rpc/gate.h"
#include "rpc/message.h"
#include "rpc/sharing.h"
#include "rpc/stream.h"

namespace simurgh::rpc {

struct OutgoingFrame {
  FrameHeader header;  // Kind and ids; lengths are filled in by the outbox.
  OutgoingMessage message;
  Gate::Pass pass;  // Given back when the frame has been written or dropped.
};

// Frames that wait to be written, and the order in which their bytes leave.
//
// Frames leave in the order they came, in batches that are gathered and written whole. The payload
// of a large message leaves in CHUNK frames behind the other frames of each batch, large messages
// in turn: so nothing waits for a large message, only for a batch. Payloads of some KiB that follow
// one another leave in one CHUNK, right behind the heads of their frames.
//
// Threads: one.
class Outbox {
 public:
  // A larger payload leaves in CHUNK frames.
  static constexpr uint64_t kMaxWholeBytes = 262'144;

  // Names a frame.
  struct Ticket {
    uint64_t number = 0;
    bool chunked = false;
  };

  // A batch takes no more when it has reached `batch_bytes`.
  explicit Outbox(uint64_t batch_bytes = Stream::kBatchBytes) : batch_limit_(batch_bytes) {}

  // The peer's HELLO has arrived. From now on large payloads leave in CHUNK frames, and frames have
  // read-ahead hints; payloads are gathered if a peer with these limits accepts the largest chunk.
  void Establish(const FrameLimits& peer);

  // From now on large segments are lent to the peer where they can be.
  void Share(std::shared_ptr<Sharing> sharing) { sharing_ = std::move(sharing); }

  // Requires at most kMaxSegments segments.
  Ticket Add(OutgoingFrame&& frame);

  // Payload copied into shared memory, and payload in frames written that was lent, since the last
  // call.
  struct SharedBytes {
    uint64_t copied = 0;
    uint64_t sent = 0;
  };
  SharedBytes TakeSharedBytes() { return std::exchange(shared_bytes_, {}); }

  // Payload lent in frames that wait or are leaving.
  uint64_t lent_bytes() const { return lent_bytes_; }

  // Takes back what is in no batch yet.
  enum class Withdrawn {
    kWhole,    // The peer never hears of the frame.
    kRest,     // The peer has a part of its payload and waits for more: tell it.
    kNothing,  // All of it has left or is leaving.
  };
  Withdrawn Withdraw(const Ticket& ticket);

  // Whether the frame's last byte has not been written: its bytes are needed, and the peer cannot
  // have the whole of it. After Withdraw: whether a part of it is leaving.
  bool Pending(const Ticket& ticket) const;

  bool empty() const { return batch_.empty() && queue_.empty() && bulk_.empty(); }
  // Of all frames that wait or are leaving, and their payloads.
  uint64_t bytes() const { return bytes_; }
  // Those of which nothing is leaving yet.
  size_t waiting_frames() const { return queue_.size(); }

  // What is to be written next, empty when there is nothing. Valid until the next Written().
  std::span<const asio::const_buffer> Gather();
  // So many bytes of Gather() have been written.
  void Written(size_t bytes);
  // Destroys the owners of what was written and of what was copied. Destructors may call into the
  // connection, so no other operation may be in progress.
  void Release() {
    Empty(done_);
    ReleaseCopied();
  }
  void ReleaseCopied() { Empty(copied_); }

  // Forgets what has not been written, for good, and lets go of everything; Pending() stays
  // answered. Requires that nobody reads what was written any more.
  void Drop();

 private:
  struct Bulk;
  // A piece of a batch: a frame, the head of a chunked one, or a CHUNK.
  struct Item {
    FrameHeader header;
    absl::InlinedVector<uint64_t, 2> table;
    std::vector<BorrowedSegment> loans;  // One a segment, or none.
    OutgoingMessage message;
    Gate::Pass pass;
    uint64_t number = 0;
    std::shared_ptr<Bulk> bulk;  // Of a head and of a CHUNK.
    uint64_t bulk_offset = 0;    // Of a CHUNK: where its bytes begin;
    size_t buffers_end = 0;      // where its buffers in gathered_ end.
  };

  // Keeps its room, and what is added meanwhile.
  template <typename T>
  static void Empty(std::vector<T>& vector) {
    if (vector.empty()) return;
    std::vector<T> old;
    old.swap(vector);
    old.clear();
    if (vector.empty()) vector.swap(old);
  }

  static uint64_t BytesOf(const Item& item);
  static uint64_t LentBytesOf(const Item& item);
  // Lends what can be; such segments are empty from then on.
  void LendSegments(Item& item);
  void Compose();
  void ComposeFrames();
  void GatherPayloads();
  Item GatheredChunk(std::span<Item> messages);
  void ComposeChunks();
  Item NextChunk(uint64_t room);
  void PadOpening();
  Item Padding(uint64_t bytes);
  void FillHints();
  void AddBuffers(size_t index);
  void AddBuffer(const void* data, size_t size);
  void AddHead(const Item& item);
  void AddPayload(Item& item);
  void NoteWritten(const Item& item);
  bool Leaving(const Bulk& bulk) const;

  const uint64_t batch_limit_;
  bool established_ = false;
  bool may_gather_ = false;
  std::shared_ptr<Sharing> sharing_;
  SharedBytes shared_bytes_;
  uint64_t lent_bytes_ = 0;
  std::vector<Item> queue_;                  // Whole frames and heads.
  std::deque<std::shared_ptr<Bulk>> bulk_;   // Chunked messages of which only the head is composed.
  std::vector<std::shared_ptr<Bulk>> open_;  // Those not written whole.
  std::vector<Item> batch_;
  uint64_t batch_bytes_ = 0;
  uint64_t promised_ = 0;   // The next batch begins with so many bytes that are no large payload.
  std::vector<Item> done_;  // Batches that have left.
  std::vector<std::shared_ptr<const void>> copied_;  // Owners of what was copied into loans.
  std::vector<asio::const_buffer> gathered_;         // Of batch_.
  size_t buffers_done_ = 0;                          // Of gathered_.
  size_t items_done_ = 0;                            // Of batch_.
  uint64_t bytes_ = 0;
  uint64_t last_number_ = 0;
  uint64_t written_ = 0;  // Of frames that are not chunked, the last one written.
};

}  // namespace simurgh::rpc
