#include "services/embedding_worker/forward_buffer.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace simurgh {

ForwardBuffer::ForwardBuffer(size_t capacity_batches, std::chrono::milliseconds expiry)
    : capacity_batches_(capacity_batches), expiry_(expiry) {}

StatusOr<uint64_t> ForwardBuffer::Add(std::shared_ptr<const BufferedBatch> batch,
                                      Clock::time_point now) {
  if (entries_.size() >= capacity_batches_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("forward buffer holds ", entries_.size(),
                     " batches (embedding_worker.forward_buffer_batches); submit again later"));
  }
  const uint64_t number = next_number_++;
  entries_.emplace(number, Entry{std::move(batch), now});
  return number;
}

StatusOr<std::shared_ptr<const BufferedBatch>> ForwardBuffer::Find(uint64_t number,
                                                                   Clock::time_point now) {
  const auto entry = entries_.find(number);
  if (entry == entries_.end()) {
    return absl::NotFoundError(absl::StrCat("forward buffer: batch ", number,
                                            " is not here (expired or consumed); submit it again"));
  }
  entry->second.last_use = now;
  return entry->second.batch;
}

void ForwardBuffer::Remove(uint64_t number) { entries_.erase(number); }

size_t ForwardBuffer::Expire(Clock::time_point now) {
  return std::erase_if(entries_,
                       [&](const auto& entry) { return now - entry.second.last_use >= expiry_; });
}

}  // namespace simurgh
