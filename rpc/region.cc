#include "rpc/region.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace simurgh::rpc {

namespace {

Status SystemError(const char* what) {
  const int error = errno;
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error), RemedyOf(error)));
}

StatusOr<Mapping> Map(int file, size_t size, int protection) {
  void* const data = ::mmap(nullptr, size, protection, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) return SystemError("mmap of shared memory");
  return Mapping({static_cast<std::byte*>(data), size});
}

}  // namespace

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

StatusOr<SharedMemory> SharedMemory::Create(const char* name, size_t size) {
  const FileDescriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return SystemError("memfd_create");
  if (::ftruncate(file.number(), static_cast<off_t>(size)) != 0) return SystemError("ftruncate");
  SharedMemory memory;
  SIMURGH_ASSIGN_OR_RETURN(memory.mapping, Map(file.number(), size, PROT_READ | PROT_WRITE));

  // The peer gets a read-only descriptor. F_SEAL_WRITE is stronger, but also prevents the owner
  // from releasing pages; mode 0 prevents other users from reopening the file to write.
  const std::string self = absl::StrCat("/proc/self/fd/", file.number());
  memory.file = FileDescriptor(::open(self.c_str(), O_RDONLY | O_CLOEXEC));
  if (!memory.file.valid()) return SystemError("opening a memfd to read");
  if (::fchmod(file.number(), 0) != 0) return SystemError("fchmod of a memfd");
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (::fcntl(file.number(), F_ADD_SEALS, kSeals) != 0) return SystemError("sealing a memfd");
  return memory;
}

StatusOr<Mapping> MapPeerMemory(const FileDescriptor& file, uint64_t min_size, uint64_t max_size) {
  // Reading other kinds of file can block or fault, whatever their seals.
  struct statfs system{};
  if (::fstatfs(file.number(), &system) != 0) return SystemError("fstatfs of shared memory");
  const int seals = ::fcntl(file.number(), F_GET_SEALS);
  if (system.f_type != TMPFS_MAGIC || seals < 0) {
    return absl::InvalidArgumentError("shared memory: the peer's file is not a memfd");
  }
  if ((seals & F_SEAL_SHRINK) == 0) {
    return absl::InvalidArgumentError(
        "shared memory: the peer's file is not sealed against shrinking");
  }
  struct stat info{};
  if (::fstat(file.number(), &info) != 0) return SystemError("fstat of shared memory");
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size < min_size || size > max_size) {
    return absl::InvalidArgumentError(absl::StrCat("shared memory: the peer's file has ", size,
                                                   " bytes, expected ", min_size, " to ",
                                                   max_size));
  }
  return Map(file.number(), size, PROT_READ);
}

BlockSpace::BlockSpace(uint64_t size) : free_{{0, size}} {
  SIMURGH_CHECK(size != 0 && size % kPageBytes == 0)
      << "region size " << size << " is not a multiple of the page size";
}

std::optional<BlockSpace::Range> BlockSpace::Allocate(uint64_t bytes) {
  if (bytes > UINT64_MAX - kPageBytes) return std::nullopt;
  const uint64_t length = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const auto fits = [length](const auto& range) { return range.second >= length; };
  const auto found = std::find_if(free_.begin(), free_.end(), fits);
  if (found == free_.end()) return std::nullopt;
  const auto [offset, room] = *found;
  free_.erase(found);
  if (room != length) free_.emplace(offset + length, room - length);
  used_bytes_ += length;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  touched_end_ = std::max(touched_end_, offset + length);
  return Range{offset, length};
}

void BlockSpace::Free(Range block) {
  used_bytes_ -= block.length;
  auto next = free_.upper_bound(block.offset);
  if (next != free_.end() && next->first == block.offset + block.length) {
    block.length += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == block.offset) {
      before->second += block.length;
      return;
    }
  }
  free_.emplace_hint(next, block.offset, block.length);
}

std::vector<BlockSpace::Range> BlockSpace::TakeIdle(uint64_t keep) {
  keep += peak_bytes_ - used_bytes_;
  peak_bytes_ = used_bytes_;
  std::vector<Range> idle;
  for (const auto& [offset, length] : free_) {
    const uint64_t kept = std::min(length, keep);
    keep -= kept;
    const uint64_t end = std::min(offset + length, touched_end_);
    if (offset + kept < end) idle.push_back({offset + kept, end - offset - kept});
  }
  if (!idle.empty() && idle.back().offset + idle.back().length == touched_end_) {
    touched_end_ = idle.back().offset;
  }
  return idle;
}

BlockSpace::Range WholePages(BlockSpace::Range range, uint64_t page_bytes) {
  const uint64_t first = (range.offset + page_bytes - 1) / page_bytes * page_bytes;
  const uint64_t end = (range.offset + range.length) / page_bytes * page_bytes;
  return {first, first < end ? end - first : 0};
}

StatusOr<std::shared_ptr<OutgoingRegion>> OutgoingRegion::Create(uint64_t bytes) {
  const uint64_t size = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  SIMURGH_ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::Create("simurgh-rpc-payload", size));
  return std::shared_ptr<OutgoingRegion>(new OutgoingRegion(std::move(memory)));
}

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
  std::optional<BlockSpace::Range> range;
  {
    MutexLock lock(mutex_);
    Reclaim();
    if (!closed_) range = space_.Allocate(bytes);
    if (!range) return std::nullopt;
    blocks_.emplace(range->offset, Block{.length = range->length});
  }
  std::byte* const data = memory_.mapping.data() + range->offset;
  auto release = [self = shared_from_this(), offset = range->offset](std::byte* /*data*/) {
    MutexLock lock(self->mutex_);
    self->Release(offset);
  };
  return SegmentBuffer{.bytes = {data, bytes}, .owner = {data, std::move(release)}};
}

void OutgoingRegion::Release(uint64_t offset) {
  const auto block = blocks_.find(offset);
  if (--block->second.uses != 0) return;
  space_.Free({offset, block->second.length});
  blocks_.erase(block);
}

bool OutgoingRegion::Holds(std::span<const std::byte> bytes) const {
  // Integers are compared, because the bytes may belong to any object.
  const uintptr_t offset = reinterpret_cast<uintptr_t>(bytes.data()) -
                           reinterpret_cast<uintptr_t>(memory_.mapping.data());
  return offset < memory_.mapping.size() && bytes.size() <= memory_.mapping.size() - offset;
}

std::optional<BorrowedSegment> OutgoingRegion::Lend(std::span<const std::byte> bytes) {
  if (!Holds(bytes)) return std::nullopt;
  const auto offset = static_cast<uint64_t>(bytes.data() - memory_.mapping.data());
  if (offset % kBorrowAlignment != 0) return std::nullopt;
  MutexLock lock(mutex_);
  Reclaim();
  const auto next = blocks_.upper_bound(offset);
  if (next == blocks_.begin() || free_slots_.empty()) return std::nullopt;
  auto& [start, block] = *std::prev(next);
  if (offset + bytes.size() > start + block.length) return std::nullopt;
  ++block.uses;
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  lent_.push_back({.slot = slot, .block = start});
  return BorrowedSegment{.offset = offset, .slot = slot, .generation = ++generations_[slot]};
}

void OutgoingRegion::TakeBack(const BorrowedSegment& segment) {
  MutexLock lock(mutex_);
  const auto found = std::ranges::find(lent_, segment.slot, &Lent::slot);
  if (found == lent_.end()) return;
  --generations_[found->slot];  // The peer has not seen it.
  free_slots_.push_back(found->slot);
  Release(found->block);
  lent_.erase(found);
}

void OutgoingRegion::Reclaim() {
  auto* const words = reinterpret_cast<uint32_t*>(board_.data());
  for (size_t i = 0; i < lent_.size();) {
    const Lent lent = lent_[i];
    // Acquire: pairs with the peer's release after its last read.
    const uint32_t returned =
        std::atomic_ref<uint32_t>(words[lent.slot]).load(std::memory_order_acquire);
    if (returned != generations_[lent.slot]) {
      ++i;
      continue;
    }
    free_slots_.push_back(lent.slot);
    lent_[i] = lent_.back();
    lent_.pop_back();
    Release(lent.block);
  }
}

void OutgoingRegion::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  for (const Lent& lent : lent_) Release(lent.block);
  lent_.clear();
  free_slots_.clear();
}

bool OutgoingRegion::Trim(uint64_t keep) {
  // The lock is held so that no block is allocated in pages that are being released.
  MutexLock lock(mutex_);
  if (closed_) return false;  // The peer may still read free blocks.
  Reclaim();
  const bool was_needed = space_.peak_bytes() != 0;
  const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  for (const BlockSpace::Range& idle : space_.TakeIdle(keep)) {
    // madvise() rounds a length up, and would release bytes of the next block.
    const BlockSpace::Range pages = WholePages(idle, page_bytes);
    // Best effort: if it fails, the pages stay.
    (void)::madvise(memory_.mapping.data() + pages.offset, pages.length, MADV_REMOVE);
  }
  return was_needed;
}

uint64_t OutgoingRegion::used_bytes() {
  MutexLock lock(mutex_);
  Reclaim();
  return space_.used_bytes();
}

namespace {

Status Malformed(const BorrowedSegment& segment, uint64_t length, const std::string& why) {
  return absl::DataLossError(absl::StrCat("malformed frame: borrowed segment of ", length,
                                          " bytes at ", segment.offset, " in slot ", segment.slot,
                                          ": ", why));
}

}  // namespace

StatusOr<std::shared_ptr<IncomingRegion>> IncomingRegion::Create() {
  SIMURGH_ASSIGN_OR_RETURN(SharedMemory board,
                           SharedMemory::Create("simurgh-rpc-board", kBoardBytes));
  return std::shared_ptr<IncomingRegion>(new IncomingRegion(std::move(board)));
}

Status IncomingRegion::Connect(const FileDescriptor& file) {
  SIMURGH_ASSIGN_OR_RETURN(region_, MapPeerMemory(file, kPageBytes, kMaxBytes));
  return absl::OkStatus();
}

StatusOr<ReceivedSegment> IncomingRegion::Borrow(const BorrowedSegment& segment, uint64_t length) {
  if (segment.offset > region_.size() || length > region_.size() - segment.offset) {
    return Malformed(segment, length, absl::StrCat("the region has ", region_.size(), " bytes"));
  }
  if (segment.offset % kBorrowAlignment != 0) {
    return Malformed(segment, length,
                     absl::StrCat("the offset is not a multiple of ", kBorrowAlignment));
  }
  if (segment.slot >= kMaxBorrowedSegments) {
    return Malformed(segment, length, absl::StrCat("there are ", kMaxBorrowedSegments, " slots"));
  }
  if (held_[segment.slot].load(std::memory_order_relaxed)) {
    return Malformed(segment, length, "the slot is in use");
  }
  if (const uint32_t next = generations_[segment.slot] + 1; segment.generation != next) {
    return Malformed(segment, length,
                     absl::StrCat("the generation is ", segment.generation, " instead of ", next));
  }
  generations_[segment.slot] = segment.generation;
  held_[segment.slot].store(true, std::memory_order_relaxed);
  const std::byte* const data = region_.data() + segment.offset;
  auto give_back = [self = shared_from_this(), segment](const std::byte* /*data*/) {
    // This precedes the store to the board, after which the peer may use the slot again.
    self->held_[segment.slot].store(false, std::memory_order_relaxed);
    auto* const words = reinterpret_cast<uint32_t*>(self->board_.mapping.data());
    // Release: all reads of the segment precede this store.
    std::atomic_ref<uint32_t>(words[segment.slot])
        .store(segment.generation, std::memory_order_release);
  };
  return ReceivedSegment{.bytes = {data, length}, .owner = {data, std::move(give_back)}};
}

}  // namespace simurgh::rpc
