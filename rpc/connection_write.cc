#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "rpc/connection.h"
#include "simurgh/base/check.h"

namespace simurgh::rpc {
namespace {

// Small frames are written together up to here.
constexpr uint64_t kMaxBatchBytes = 262'144;

}  // namespace

uint64_t Connection::Send(OutgoingFrame frame) {
  if (!open()) return ++last_number_;
  std::vector<uint64_t> table;
  table.reserve(frame.message.segments.size());
  FrameHeader& header = frame.header;
  header.payload_length = 0;
  for (const OutgoingSegment& segment : frame.message.segments) {
    table.push_back(segment.bytes.size());
    header.payload_length += segment.bytes.size();
  }
  SIMURGH_CHECK_LE(table.size(), kMaxSegments);
  header.segment_count = static_cast<uint16_t>(table.size());
  header.metadata_length = static_cast<uint32_t>(frame.message.metadata.bytes.size());
  header = Seal(header);
  const uint64_t bytes = FrameBytes(header);
  queue_.push_back({.frame = std::move(frame),
                    .table = std::move(table),
                    .number = ++last_number_,
                    .bytes = bytes});
  if (!flush_posted_ && writing_.empty()) {
    // Later, so that what others send until then leaves in the same system call.
    flush_posted_ = true;
    asio::post(executor(), [self = shared_from_this()] {
      self->flush_posted_ = false;
      if (self->reason_.ok() && self->writing_.empty()) self->StartWrite();
    });
  }
  return last_number_;
}

bool Connection::Withdraw(uint64_t number) {
  const auto found = std::find_if(queue_.begin(), queue_.end(),
                                  [&](const Queued& queued) { return queued.number == number; });
  if (found == queue_.end()) return false;
  queue_.erase(found);
  return true;
}

void Connection::StartWrite() {
  if (queue_.empty()) return;
  uint64_t batch_bytes = 0;
  while (!queue_.empty() &&
         (writing_.empty() || batch_bytes + queue_.front().bytes <= kMaxBatchBytes)) {
    batch_bytes += queue_.front().bytes;
    writing_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  begun_ = writing_.back().number;
  GatherBuffers();
  Write();
}

void Connection::Write() {
  while (gathered_done_ < gathered_.size()) {
    const auto [error, bytes] = stream_->TryWrite(std::span(gathered_).subspan(gathered_done_));
    if (error == asio::error::would_block) {
      return stream_->WhenWritable([self = shared_from_this()](const Stream::ErrorCode& failure) {
        failure ? self->OnWritten(failure) : self->Write();
      });
    }
    if (error) return OnWritten(error);
    bytes_written_ += bytes;
    for (size_t left = bytes; left != 0;) {
      asio::const_buffer& buffer = gathered_[gathered_done_];
      const size_t part = std::min(left, buffer.size());
      buffer += part;
      left -= part;
      if (buffer.size() == 0) ++gathered_done_;
    }
  }
  OnWritten({});
}

void Connection::GatherBuffers() {
  gathered_.clear();
  gathered_done_ = 0;
  bytes_written_ = 0;
  const auto add = [this](const void* data, size_t size) {
    if (size != 0) gathered_.emplace_back(data, size);
  };
  for (const Queued& queued : writing_) {
    add(&queued.frame.header, kHeaderBytes);
    add(queued.table.data(), queued.table.size() * sizeof(uint64_t));
    const OutgoingMessage& message = queued.frame.message;
    add(message.metadata.bytes.data(), message.metadata.bytes.size());
    for (const OutgoingSegment& segment : message.segments) {
      add(segment.bytes.data(), segment.bytes.size());
    }
  }
}

void Connection::OnWritten(const Stream::ErrorCode& error) {
  // What the owners do when they are let go must not find a write under way that is over.
  const std::vector<Queued> done = std::exchange(writing_, {});
  gathered_.clear();
  uint64_t left = bytes_written_;
  for (const Queued& queued : done) {
    if (queued.bytes > left) break;
    left -= queued.bytes;
    written_ = queued.number;
  }
  if (error) begun_ = written_;
  if (!reason_.ok()) return;
  observer_->OnBytesSent(bytes_written_);
  if (error) return Close(absl::UnavailableError(absl::StrCat("write: ", error.message())));
  if (!queue_.empty()) return StartWrite();
  if (!closing_.ok()) Close(closing_);
}

}  // namespace simurgh::rpc
