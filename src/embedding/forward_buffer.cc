#include "embedding/forward_buffer.h"

#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/step_id.h"

namespace simurgh {

uint64_t ForwardBuffer::Place::Fill(std::shared_ptr<BufferedBatch> batch, Clock::time_point now) {
  ForwardBuffer& buffer = *std::exchange(buffer_, nullptr);
  const auto found = buffer.entries_.find(number_);
  if (found == buffer.entries_.end()) return number_;
  Entry& entry = found->second;
  buffer.bytes_ -= entry.bytes;
  entry.bytes = batch->bytes();
  entry.batch = std::move(batch);
  entry.last_use = now;
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
  return entries_.size() < capacity_batches_ && bytes_ + bytes <= capacity_bytes_;
}

ForwardBuffer::Order ForwardBuffer::Before(const SubmitOptions& options) {
  return {.rank = options.rank, .mode = options.mode, .run = options.run, .step = options.step};
}

bool ForwardBuffer::IsExemptFromLimit(const SubmitOptions& options) const {
  const Order own = Before(options);
  auto earlier = order_.lower_bound({.rank = own.rank, .mode = own.mode, .run = own.run});
  for (uint32_t i = 0; i < options.lookahead_steps; ++i, ++earlier) {
    if (earlier == order_.end() || *earlier >= own) return true;
  }
  return false;
}

ForwardBuffer::Place ForwardBuffer::Reserve(const SubmitOptions& options, size_t bytes) {
  SIMURGH_CHECK(HasRoom(bytes) || IsExemptFromLimit(options));
  if (std::exchange(last_run_, options.run) != options.run) DropSuperseded(options.run);
  const bool has_room = HasRoom(bytes);
  if (!has_room) EvictExempt(options);
  Order order = Before(options);
  order.number = next_number_++;
  order_.insert(order);
  if (!has_room) exempt_.insert(order);
  entries_.emplace(order.number, Entry{.order = order, .bytes = bytes});
  bytes_ += bytes;
  on_change_();
  return {*this, order.number};
}

void ForwardBuffer::EvictExempt(const SubmitOptions& options) {
  constexpr uint64_t kLast = std::numeric_limits<uint64_t>::max();
  const auto first = exempt_.lower_bound({.rank = options.rank, .mode = options.mode});
  const auto end = exempt_.upper_bound({options.rank, options.mode, kLast, kLast, kLast});
  if (std::distance(first, end) < options.lookahead_steps) return;
  // Prefer a batch of another run, which may be over. Such batches sort before or after this run's.
  auto last = std::prev(end);
  if (last->run == options.run && first->run != options.run) last = first;
  Erase(entries_.find(last->number));
}

void ForwardBuffer::DropSuperseded(uint64_t run) {
  for (auto next = entries_.begin(); next != entries_.end();) {
    const auto entry = next++;
    if (IsSuperseded(entry->second.order.run, run)) Erase(entry);
  }
}

void ForwardBuffer::Erase(Entries::iterator entry) {
  bytes_ -= entry->second.bytes;
  order_.erase(entry->second.order);
  exempt_.erase(entry->second.order);
  entries_.erase(entry);
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
    return absl::NotFoundError(
        absl::StrCat("forward buffer: batch ", number,
                     " was consumed, has expired or was evicted; submit it again"));
  }
  entry->second.last_use = now;
  return entry->second.batch;
}

bool ForwardBuffer::Remove(uint64_t number) {
  const auto entry = entries_.find(number);
  if (entry == entries_.end()) return false;
  Erase(entry);
  on_change_();
  return true;
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
    Erase(numbered);
    ++expired;
  }
  return expired;
}

}  // namespace simurgh
