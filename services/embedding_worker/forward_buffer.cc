#include "services/embedding_worker/forward_buffer.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "simurgh/base/check.h"

namespace simurgh {

ForwardBuffer::ForwardBuffer(size_t capacity_batches, size_t capacity_bytes,
                             std::chrono::milliseconds expiry)
    : capacity_batches_(capacity_batches), capacity_bytes_(capacity_bytes), expiry_(expiry) {}

bool ForwardBuffer::HasRoom(size_t bytes) const {
  return entries_.empty() ||
         (entries_.size() < capacity_batches_ && bytes_ + bytes <= capacity_bytes_);
}

uint64_t ForwardBuffer::Add(std::shared_ptr<BufferedBatch> batch, Clock::time_point now) {
  const size_t bytes = batch->bytes();
  SIMURGH_CHECK(HasRoom(bytes));
  const uint64_t number = next_number_++;
  entries_.emplace(number, Entry{std::move(batch), bytes, now});
  bytes_ += bytes;
  return number;
}

std::string ForwardBuffer::Describe() const {
  return absl::StrCat("the forward buffer holds ", entries_.size(), " batches of ",
                      capacity_batches_, " (embedding_worker.forward_buffer_batches) and ", bytes_,
                      " bytes of ", capacity_bytes_, " (embedding_worker.forward_buffer_bytes)");
}

StatusOr<std::shared_ptr<BufferedBatch>> ForwardBuffer::Find(uint64_t number,
                                                             Clock::time_point now) {
  const auto entry = entries_.find(number);
  if (entry == entries_.end()) {
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
}

size_t ForwardBuffer::Expire(Clock::time_point now) {
  return std::erase_if(entries_, [&](const auto& entry) {
    if (now - entry.second.last_use < expiry_) return false;
    bytes_ -= entry.second.bytes;
    return true;
  });
}

}  // namespace simurgh
