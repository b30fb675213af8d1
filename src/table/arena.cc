#include "table/arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "simurgh/base/check.h"
#include "table/address_space.h"

namespace simurgh {
namespace {

constexpr uint64_t kCacheLine = 64;
constexpr uint64_t kPage = 4096;
constexpr uint64_t AlignmentFor(uint64_t bytes) {
  return bytes >= kHugePage ? kHugePage : kCacheLine;
}

}  // namespace

StatusOr<Arena> Arena::Create(uint64_t reserved_bytes) {
  const uint64_t size = RoundUp(reserved_bytes + sizeof(ArenaSuperblock), kHugePage);
  SIMURGH_ASSIGN_OR_RETURN(std::byte* const base, ReserveAddresses(size));
  Arena arena(base, size, -1);
  if (mmap(base, size, PROT_READ | PROT_WRITE,
           MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
    return NoAddressSpace(size);
  }
  // Where the system hands out huge pages unasked, a tiny table would cost 2 MiB.
  madvise(base, size, MADV_NOHUGEPAGE);
  arena.WriteSuperblock(0);
  return arena;
}

Arena::Arena(Arena&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      file_(std::exchange(other.file_, -1)),
      prefaulter_(std::move(other.prefaulter_)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(size_, other.size_);
  std::swap(file_, other.file_);
  std::swap(prefaulter_, other.prefaulter_);
  return *this;
}

Arena::~Arena() {
  prefaulter_ = nullptr;
  if (base_ != nullptr) munmap(base_, size_);
  if (file_ >= 0) close(file_);
}

uint64_t Arena::ReservationFor(uint64_t bytes) {
  return RoundUp(bytes, kCacheLine) + (bytes >= kHugePage ? kHugePage : 0);
}

uint64_t Arena::Reserve(uint64_t bytes) {
  const uint64_t offset = RoundUp(superblock().used_bytes, AlignmentFor(bytes));
  SIMURGH_CHECK_LE(offset + bytes, size_);
  superblock().used_bytes = offset + RoundUp(bytes, kCacheLine);
  return offset;
}

void Arena::UseHugePages(uint64_t offset, uint64_t bytes) {
  const uint64_t first = RoundUp(offset, kHugePage);
  const uint64_t last = (offset + bytes) / kHugePage * kHugePage;
  if (first < last) madvise(base_ + first, last - first, MADV_HUGEPAGE);
}

bool Arena::Prefault(uint64_t offset, uint64_t bytes) {
  if (prefaulter_ == nullptr) prefaulter_ = std::make_unique<Prefaulter>();
  return prefaulter_->Prefault(base_ + offset, bytes);
}

void Arena::WriteSuperblock(uint64_t identity) {
  superblock() = {.magic = kArenaMagic,
                  .version = kArenaVersion,
                  .superblock_bytes = sizeof(ArenaSuperblock),
                  .size_bytes = size_,
                  .identity = identity,
                  .used_bytes = sizeof(ArenaSuperblock)};
}

ArenaRegion::ArenaRegion(Arena& arena, uint64_t capacity_bytes)
    : arena_(arena),
      offset_(arena.Reserve(capacity_bytes)),
      capacity_(capacity_bytes),
      base_(arena.at(offset_)),
      secured_(arena.shared() ? 0 : capacity_bytes) {}

uint64_t ArenaRegion::Allocate(uint64_t bytes) {
  SIMURGH_CHECK_LE(used_ + bytes, capacity_);
  const uint64_t offset = used_;
  used_ += bytes;
  if (used_ > secured_) [[unlikely]] {
    const Status secured = Commit(0);
    SIMURGH_CHECK(secured.ok()) << std::string(secured.message());
  }
  if (used_ > look_ahead_at_) [[unlikely]] {
    if (look_ahead_at_ == kHugePageThreshold)
      arena_.UseHugePages(offset_ + offset, capacity_ - offset);
    PrefaultAhead();
  }
  return offset;
}

Status ArenaRegion::Commit(uint64_t bytes) {
  const uint64_t wanted = std::min(used_ + bytes, capacity_);
  if (wanted <= secured_) return absl::OkStatus();
  const uint64_t together = used_ < kHugePageThreshold ? kSecuredTogether : kHugePage;
  const uint64_t end = std::min(RoundUp(offset_ + wanted, together) - offset_, capacity_);
  SIMURGH_RETURN_IF_ERROR(arena_.Commit(offset_ + secured_, end - secured_));
  secured_ = end;
  return absl::OkStatus();
}

uint64_t ArenaRegion::MoreTaken(uint64_t bytes) const {
  const uint64_t used = std::min(used_ + bytes, capacity_);
  const uint64_t end = used > kHugePageThreshold ? AheadOf(used) : RoundUp(used, kPage);
  const uint64_t taken =
      std::max({RoundUp(used_, kPage), populated_, arena_.shared() ? secured_ : 0});
  return end - std::min(end, taken);
}

uint64_t ArenaRegion::NextHugePage(uint64_t used) const {
  return RoundUp(offset_ + used, kHugePage) - offset_;
}

uint64_t ArenaRegion::AheadOf(uint64_t used) const {
  const uint64_t ahead = std::clamp(used / 16, kLeastAhead, kMaxAhead);
  return std::min(NextHugePage(used) + ahead / kHugePage * kHugePage, capacity_);
}

// Asks for whole huge pages, and once for each that is filled: then also for those that there was
// no place for before.
void ArenaRegion::PrefaultAhead() {
  const uint64_t first = std::max(populated_, NextHugePage(used_));
  const uint64_t last = AheadOf(used_);
  look_ahead_at_ = used_ + kHugePage;
  if (first < last && arena_.Prefault(offset_ + first, last - first)) populated_ = last;
}

}  // namespace simurgh
