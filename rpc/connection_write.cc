#include <utility>

#include "rpc/connection.h"

namespace simurgh::rpc {
namespace {

// Other connections of the thread run after this many bytes.
constexpr uint64_t kMaxTurnBytes = uint64_t{1} << 20;

// Fewer corked bytes wait until the reading coroutine does. Frames that lend this much are not
// corked.
constexpr uint64_t kMinCorkBytes = 16'384;
// More corked bytes leave at once.
constexpr uint64_t kMaxCorkBytes = uint64_t{1} << 20;
// Longer than reading and answering four messages of 64 KiB. For handlers that compute longer, one
// system call per answer is cheap.
constexpr auto kMaxCorkTime = std::chrono::microseconds(100);

}  // namespace

Outbox::Ticket Connection::Send(OutgoingFrame&& frame) {
  if (!open()) return {.number = UINT64_MAX};
  if (stream_->copies()) {
    uint64_t copied = 0;
    for (const OutgoingSegment& segment : frame.message.segments) copied += segment.bytes.size();
    if (copied != 0) observer_->OnPayloadCopied(copied);
  }
  const Outbox::Ticket ticket = outbox_.Add(std::move(frame));
  outbox_.ReleaseCopied();
  if (flush_pending_) return ticket;
  if (outbox_.borrowed_bytes() >= kMinCorkBytes || (corked_ && CorkIsFull())) {
    Flush();
  } else if (!corked_) {
    PostFlush();
  }
  return ticket;
}

// Posted, so that frames sent until then leave in the same system call.
void Connection::PostFlush() {
  flush_pending_ = true;
  asio::post(executor(), [self = shared_from_this()] { self->Flush(); });
}

bool Connection::CorkIsFull() const {
  if (outbox_.bytes() < kMinCorkBytes) return false;
  return outbox_.bytes() >= kMaxCorkBytes || outbox_.waiting_frames() >= max_corked_frames_ ||
         Clock::now() - cork_began_ >= kMaxCorkTime;
}

void Connection::Uncork() {
  corked_ = false;
  if (!flush_pending_ && !outbox_.empty()) Flush();
}

void Connection::Flush() {
  flush_pending_ = false;
  uint64_t sent = 0;
  Stream::ErrorCode error;
  while (reason_.ok() && !error && !outbox_.empty() && sent < kMaxTurnBytes) {
    const Stream::Progress progress = stream_->TryWrite(outbox_.Gather());
    error = progress.error;
    sent += progress.bytes;
    outbox_.Written(progress.bytes);
  }
  if (!reason_.ok()) return;
  const Outbox::SharedBytes shared = outbox_.TakeSharedBytes();
  observer_->OnBytesSent(sent + shared.sent);
  if (shared.copied != 0) observer_->OnPayloadCopied(shared.copied);
  bytes_written_ += sent;
  if (corked_) cork_began_ = Clock::now();
  if (outbox_.empty()) ++times_drained_;
  if (error == asio::error::would_block) {
    flush_pending_ = true;
    stream_->WhenWritable([self = shared_from_this()](const Stream::ErrorCode&) { self->Flush(); });
  } else if (error) {
    Close(StreamError("write", error));
  } else if (!outbox_.empty()) {
    PostFlush();
  } else if (!closing_.ok()) {
    Close(closing_);
  }
  outbox_.Release();
  written_.NotifyAll();
}

}  // namespace simurgh::rpc
