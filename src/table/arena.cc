#include "table/arena.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/mman.h>

#include "absl/strings/str_cat.h"

#include "simurgh/base/check.h"

namespace simurgh {
namespace {

constexpr uint64_t kCacheLine = 64;
constexpr uint64_t kHugePage = uint64_t{2} << 20;

constexpr uint64_t RoundUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

constexpr uint64_t AlignmentFor(uint64_t bytes) {
  return bytes >= kHugePage ? kHugePage : kCacheLine;
}

}  // namespace

StatusOr<Arena> Arena::Create(uint64_t reserved_bytes) {
  // One huge page more, so that the first byte can lie on a boundary whatever the system answers.
  const uint64_t size = RoundUp(reserved_bytes, kHugePage) + kHugePage;
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "table: cannot reserve ", size >> 20, " MiB of address space: ", std::strerror(errno),
        "; lower capacity_rows, use more partitions, or allow overcommit (vm.overcommit_memory)"));
  }
  // Where the system hands out huge pages unasked, a tiny table would cost 2 MiB.
  madvise(base, size, MADV_NOHUGEPAGE);
  return Arena(static_cast<std::byte*>(base), size);
}

Arena::Arena(Arena&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      used_(std::exchange(other.used_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(size_, other.size_);
  std::swap(used_, other.used_);
  return *this;
}

Arena::~Arena() {
  if (base_ != nullptr) munmap(base_, size_);
}

uint64_t Arena::ReservationFor(uint64_t bytes) { return RoundUp(bytes, kCacheLine) + kHugePage; }

uint64_t Arena::Reserve(uint64_t bytes) {
  const uint64_t alignment = AlignmentFor(bytes);
  const auto address = reinterpret_cast<uint64_t>(base_);
  const uint64_t offset = RoundUp(address + used_, alignment) - address;
  SIMURGH_CHECK_LE(offset + bytes, size_);
  used_ = offset + RoundUp(bytes, kCacheLine);
  return offset;
}

void Arena::UseHugePages(uint64_t offset, uint64_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(base_);
  const uint64_t first = RoundUp(address + offset, kHugePage) - address;
  const uint64_t last = (address + offset + bytes) / kHugePage * kHugePage - address;
  if (first < last) madvise(base_ + first, last - first, MADV_HUGEPAGE);
}

ArenaRegion::ArenaRegion(Arena& arena, uint64_t capacity_bytes)
    : arena_(arena),
      offset_(arena.Reserve(capacity_bytes)),
      capacity_(capacity_bytes),
      base_(arena.at(offset_)) {}

uint64_t ArenaRegion::Allocate(uint64_t bytes) {
  SIMURGH_CHECK_LE(used_ + bytes, capacity_);
  const uint64_t offset = used_;
  used_ += bytes;
  if (!huge_pages_ && used_ > kHugePageThreshold) {
    huge_pages_ = true;
    arena_.UseHugePages(offset_ + offset, capacity_ - offset);
  }
  return offset;
}

}  // namespace simurgh
