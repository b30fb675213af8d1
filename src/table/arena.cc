#include "table/arena.h"

#include <algorithm>
#include <string>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "simurgh/base/check.h"
#include "table/address_space.h"

namespace simurgh {
namespace {

constexpr uint64_t kCacheLine = 64;
constexpr uint64_t kPage = 4096;

}  // namespace

StatusOr<Arena> Arena::Create(uint64_t reserved_bytes) {
  const uint64_t size = RoundUp(reserved_bytes, kHugePage);
  SIMURGH_ASSIGN_OR_RETURN(std::byte* const base, ReserveAddresses(size));
  Arena arena(base, size, -1);
  if (mmap(base, size, PROT_READ | PROT_WRITE,
           MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
    return NoAddressSpace(size);
  }
  // Otherwise a tiny table takes 2 MiB where transparent huge pages are set to 'always'.
  madvise(base, size, MADV_NOHUGEPAGE);
  return arena;
}

Arena::Arena(Arena&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      used_(std::exchange(other.used_, 0)),
      file_(std::exchange(other.file_, -1)),
      prefault_(std::move(other.prefault_)) {}

Arena::~Arena() {
  prefault_ = nullptr;
  if (base_ != nullptr) munmap(base_, size_);
  if (file_ >= 0) close(file_);
}

uint64_t Arena::ReservationFor(uint64_t bytes) {
  return RoundUp(bytes, kCacheLine) + (bytes >= kHugePage ? kHugePage : 0);
}

uint64_t Arena::Reserve(uint64_t bytes) {
  const uint64_t offset = RoundUp(used_, bytes >= kHugePage ? kHugePage : kCacheLine);
  SIMURGH_CHECK_LE(offset + bytes, size_);
  used_ = offset + RoundUp(bytes, kCacheLine);
  return offset;
}

void Arena::UseHugePages(uint64_t offset, uint64_t bytes) {
  const uint64_t first = RoundUp(offset, kHugePage);
  const uint64_t last = (offset + bytes) / kHugePage * kHugePage;
  if (first < last) madvise(base_ + first, last - first, MADV_HUGEPAGE);
}

bool Arena::Prefault(uint64_t offset, uint64_t bytes) {
  if (prefault_ == nullptr) prefault_ = std::make_unique<PrefaultThread>();
  return prefault_->Prefault(base_ + offset, bytes);
}

ArenaRegion::ArenaRegion(Arena& arena, uint64_t capacity_bytes)
    : arena_(arena),
      offset_(arena.Reserve(capacity_bytes)),
      capacity_(capacity_bytes),
      base_(arena.at(offset_)),
      committed_(arena.in_file() ? 0 : capacity_bytes) {}

uint64_t ArenaRegion::Allocate(uint64_t bytes) {
  SIMURGH_CHECK_LE(used_ + bytes, capacity_);
  const uint64_t offset = used_;
  used_ += bytes;
  if (used_ > committed_) [[unlikely]] {
    const Status committed = Commit(0);
    SIMURGH_CHECK(committed.ok()) << std::string(committed.message());
  }
  if (used_ > prefault_at_) [[unlikely]] {
    if (prefault_at_ == kHugePageThreshold)
      arena_.UseHugePages(offset_ + offset, capacity_ - offset);
    PrefaultAhead();
  }
  return offset;
}

Status ArenaRegion::Commit(uint64_t bytes) {
  const uint64_t wanted = std::min(used_ + bytes, capacity_);
  if (wanted <= committed_) return absl::OkStatus();
  const uint64_t granularity = used_ < kHugePageThreshold ? kCommitBytes : kHugePage;
  const uint64_t end = std::min(RoundUp(offset_ + wanted, granularity) - offset_, capacity_);
  SIMURGH_RETURN_IF_ERROR(arena_.Commit(offset_ + committed_, end - committed_));
  committed_ = end;
  return absl::OkStatus();
}

uint64_t ArenaRegion::AddedMemory(uint64_t bytes) const {
  const uint64_t used = std::min(used_ + bytes, capacity_);
  const uint64_t end = used > kHugePageThreshold ? AheadOf(used) : RoundUp(used, kPage);
  const uint64_t taken =
      std::max({RoundUp(used_, kPage), prefaulted_, arena_.in_file() ? committed_ : 0});
  return end - std::min(end, taken);
}

uint64_t ArenaRegion::NextHugePage(uint64_t used) const {
  return RoundUp(offset_ + used, kHugePage) - offset_;
}

uint64_t ArenaRegion::AheadOf(uint64_t used) const {
  const uint64_t ahead = std::clamp(used / 16, kMinAhead, kMaxAhead);
  return std::min(NextHugePage(used) + ahead / kHugePage * kHugePage, capacity_);
}

// Runs once per huge page used, so it also retries ranges that the prefault thread's queue refused.
void ArenaRegion::PrefaultAhead() {
  const uint64_t first = std::max(prefaulted_, NextHugePage(used_));
  const uint64_t last = AheadOf(used_);
  prefault_at_ = used_ + kHugePage;
  if (first < last && arena_.Prefault(offset_ + first, last - first)) prefaulted_ = last;
}

}  // namespace simurgh
