#include "services/embedding_worker/forward_buffer.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "simurgh/base/check.h"

namespace simurgh {

uint64_t ForwardBuffer::Place::Fill(std::shared_ptr<BufferedBatch> batch, Clock::time_point now) {
  ForwardBuffer& buffer = *std::exchange(buffer_, nullptr);
  Entry& entry = buffer.entries_.at(number_);
  buffer.bytes_ -= entry.bytes;
  entry = {.batch = std::move(batch), .last_use = now};
  entry.bytes = entry.batch->bytes();
  buffer.bytes_ += entry.bytes;
  buffer.on_change_();
  return number_;
}

ForwardBuffer::ForwardBuffer(size_t capacity_batches, size_t capacity_bytes,
                             std::chrono::milliseconds expiry, std::function<void()> on_change)
    : capacity_batches_(capacity_batches),
      capacity_bytes_(capacity_bytes),
      expiry_(expiry),
      on_change_(std::move(on_change)) {}

bool ForwardBuffer::HasRoom(size_t bytes) const {
  return entries_.empty() ||
         (entries_.size() < capacity_batches_ && bytes_ + bytes <= capacity_bytes_);
}

ForwardBuffer::Place ForwardBuffer::Reserve(size_t bytes) {
  SIMURGH_CHECK(HasRoom(bytes));
  const uint64_t number = next_number_++;
  entries_.emplace(number, Entry{.bytes = bytes});
  bytes_ += bytes;
  on_change_();
  return {*this, number};
}

std::string ForwardBuffer::Describe() const {
  return absl::StrCat("the forward buffer holds ", entries_.size(), " batches of ",
                      capacity_batches_, " (embedding_worker.forward_buffer_batches) and ", bytes_,
                      " bytes of ", capacity_bytes_, " (embedding_worker.forward_buffer_bytes)");
}

StatusOr<std::shared_ptr<BufferedBatch>> ForwardBuffer::Find(uint64_t number,
                                                             Clock::time_point now) {
  const auto entry = entries_.find(number);
  if (entry == entries_.end() || entry->second.batch == nullptr) {
    return absl::NotFoundError(absl::StrCat("forward buffer: batch ", number,
                                            " is not here (expired or consumed); submit it again"));
  }
  entry->second.last_use = now;
  return entry->second.batch;
}

void ForwardBuffer::Remove(uint64_t number) {
  const auto entry = entries_.find(number);
  if (entry == entries_.end()) return;
  bytes_ -= entry->second.bytes;
  entries_.erase(entry);
  on_change_();
}

size_t ForwardBuffer::Expire(Clock::time_point now) {
  size_t expired = 0;
  for (auto next = entries_.begin(); next != entries_.end();) {
    const auto numbered = next++;
    Entry& entry = numbered->second;
    if (entry.batch == nullptr) continue;
    if (entry.batch.use_count() > 1) {
      entry.last_use = now;
      continue;
    }
    if (now - entry.last_use < expiry_) continue;
    bytes_ -= entry.bytes;
    entries_.erase(numbered);
    ++expired;
  }
  if (expired > 0) on_change_();
  return expired;
}

}  // namespace simurgh
