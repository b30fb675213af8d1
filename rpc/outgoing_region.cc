#include "rpc/outgoing_region.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "rpc/block_space.h"
#include "simurgh/base/check.h"

namespace simurgh::rpc {

// The bytes of a region and their allocation. Lock order: never while the region's mutex is held.
class OutgoingRegion::Memory : public std::enable_shared_from_this<Memory> {
 public:
  explicit Memory(SharedMemory shared)
      : shared_(std::move(shared)), space_(shared_.mapping.size()) {}

  FileDescriptor TakeFile() { return std::move(shared_.file); }
  std::byte* data() const { return shared_.mapping.data(); }
  size_t size() const { return shared_.mapping.size(); }

  std::shared_ptr<Block> Allocate(size_t bytes);
  void Free(BlockSpace::Range range);
  // The live block that contains [offset, end), or null.
  std::shared_ptr<const Block> Find(uint64_t offset, uint64_t end);
  bool Trim(uint64_t keep);
  uint64_t used_bytes();

 private:
  SharedMemory shared_;
  Mutex mutex_;
  BlockSpace space_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, std::weak_ptr<const Block>> blocks_ ABSL_GUARDED_BY(mutex_);  // By offset.
};

// Part of the region, freed by the destructor.
struct OutgoingRegion::Block {
  Block(std::shared_ptr<Memory> of, BlockSpace::Range range)
      : memory(std::move(of)), range(range) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { memory->Free(range); }

  const std::shared_ptr<Memory> memory;
  const BlockSpace::Range range;
};

std::shared_ptr<OutgoingRegion::Block> OutgoingRegion::Memory::Allocate(size_t bytes) {
  std::optional<BlockSpace::Range> range;
  {
    MutexLock lock(mutex_);
    range = space_.Allocate(bytes);
  }
  if (!range) return nullptr;
  auto block = std::make_shared<Block>(shared_from_this(), *range);
  MutexLock lock(mutex_);
  blocks_.emplace(range->offset, block);
  return block;
}

void OutgoingRegion::Memory::Free(BlockSpace::Range range) {
  MutexLock lock(mutex_);
  blocks_.erase(range.offset);
  space_.Free(range);
}

std::shared_ptr<const OutgoingRegion::Block> OutgoingRegion::Memory::Find(uint64_t offset,
                                                                          uint64_t end) {
  std::shared_ptr<const Block> block;
  {
    MutexLock lock(mutex_);
    const auto next = blocks_.upper_bound(offset);
    if (next != blocks_.begin()) block = std::prev(next)->second.lock();
  }
  const bool holds = block != nullptr && end <= block->range.offset + block->range.length;
  return holds ? block : nullptr;
}

bool OutgoingRegion::Memory::Trim(uint64_t keep) {
  // Under the lock, so that no block is allocated in pages that are being released.
  MutexLock lock(mutex_);
  const bool was_needed = space_.peak_bytes() != 0;
  for (const BlockSpace::Range& idle : space_.TakeIdle(keep)) {
    shared_.Release(idle.offset, idle.length);
  }
  return was_needed;
}

uint64_t OutgoingRegion::Memory::used_bytes() {
  MutexLock lock(mutex_);
  return space_.used_bytes();
}

StatusOr<std::unique_ptr<OutgoingRegion>> OutgoingRegion::Create(uint64_t bytes) {
  const uint64_t size = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  SIMURGH_ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::Create("simurgh-rpc-payload", size));
  return std::unique_ptr<OutgoingRegion>(
      new OutgoingRegion(std::make_shared<Memory>(std::move(memory))));
}

OutgoingRegion::OutgoingRegion(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}

OutgoingRegion::~OutgoingRegion() = default;

FileDescriptor OutgoingRegion::TakeFile() { return memory_->TakeFile(); }

void OutgoingRegion::Connect(Mapping board) {
  SIMURGH_CHECK_EQ(board.size(), kBoardBytes);
  MutexLock lock(mutex_);
  board_ = std::move(board);
  generations_.resize(kMaxBorrowedSegments);
  free_slots_.resize(kMaxBorrowedSegments);
  std::iota(free_slots_.rbegin(), free_slots_.rend(), 0U);  // Low slots first: few cache lines.
}

std::optional<SegmentBuffer> OutgoingRegion::Allocate(size_t bytes) {
  if (bytes == 0) return std::nullopt;
  Reclaim();
  std::shared_ptr<Block> block = memory_->Allocate(bytes);
  // Checked after the allocation: Close() may have freed a block that the peer still reads.
  if (block == nullptr || closed()) return std::nullopt;
  std::byte* const data = memory_->data() + block->range.offset;
  return SegmentBuffer{.bytes = {data, bytes}, .owner = std::move(block)};
}

bool OutgoingRegion::Holds(std::span<const std::byte> bytes) const {
  // As integers, because the bytes may belong to any object.
  const uintptr_t offset =
      reinterpret_cast<uintptr_t>(bytes.data()) - reinterpret_cast<uintptr_t>(memory_->data());
  return offset < memory_->size() && bytes.size() <= memory_->size() - offset;
}

std::optional<BorrowedSegment> OutgoingRegion::Lend(std::span<const std::byte> bytes) {
  if (!Holds(bytes)) return std::nullopt;
  Reclaim();
  const auto offset = static_cast<uint64_t>(bytes.data() - memory_->data());
  if (offset % kBorrowAlignment != 0) return std::nullopt;
  std::shared_ptr<const Block> block = memory_->Find(offset, offset + bytes.size());
  if (block == nullptr) return std::nullopt;
  MutexLock lock(mutex_);
  if (free_slots_.empty()) return std::nullopt;
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  lent_.push_back({.slot = slot, .block = std::move(block)});
  return BorrowedSegment{.offset = offset, .slot = slot, .generation = ++generations_[slot]};
}

void OutgoingRegion::TakeBack(const BorrowedSegment& segment) {
  Lent ended;  // Destroyed after the lock.
  MutexLock lock(mutex_);
  const auto found = std::find_if(lent_.begin(), lent_.end(),
                                  [&](const Lent& lent) { return lent.slot == segment.slot; });
  if (found == lent_.end()) return;
  ended = std::move(*found);
  lent_.erase(found);
  free_slots_.push_back(ended.slot);
}

void OutgoingRegion::Reclaim() {
  std::vector<Lent> ended;  // Destroyed after the lock.
  MutexLock lock(mutex_);
  auto* const words = reinterpret_cast<uint32_t*>(board_.data());
  for (size_t i = 0; i < lent_.size();) {
    const uint32_t slot = lent_[i].slot;
    // Acquire: pairs with the peer's release after its last read.
    const uint32_t returned =
        std::atomic_ref<uint32_t>(words[slot]).load(std::memory_order_acquire);
    if (returned != generations_[slot]) {
      ++i;
      continue;
    }
    free_slots_.push_back(slot);
    ended.push_back(std::exchange(lent_[i], std::move(lent_.back())));
    lent_.pop_back();
  }
}

void OutgoingRegion::Close() {
  std::vector<Lent> ended;  // Destroyed after the lock.
  MutexLock lock(mutex_);
  closed_ = true;
  std::swap(ended, lent_);
  free_slots_.clear();
}

bool OutgoingRegion::closed() {
  MutexLock lock(mutex_);
  return closed_;
}

bool OutgoingRegion::Trim(uint64_t keep) {
  if (closed()) return false;  // The peer may still read free blocks.
  Reclaim();
  return memory_->Trim(keep);
}

uint64_t OutgoingRegion::used_bytes() {
  Reclaim();
  return memory_->used_bytes();
}

}  // namespace simurgh::rpc
