#include "table/arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/thread.h"

namespace simurgh {
namespace {

constexpr uint64_t kCacheLine = 64;
const auto kPage = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));  // 64 KiB on some 64-bit ARM.

// The error of a failed reservation, from errno.
Status NoAddressSpace(uint64_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "embedding_ps: cannot reserve ", bytes >> 20, " MiB of address space: ", std::strerror(errno),
      "; lower capacity_rows, use more partitions, or allow overcommit (vm.overcommit_memory)"));
}

// Reserves address space without memory, aligned to a huge page. The caller maps memory into it and
// unmaps it as a whole. Errors: RESOURCE_EXHAUSTED.
StatusOr<std::byte*> ReserveAddresses(uint64_t bytes) {
  // One extra huge page leaves room for the alignment.
  const uint64_t reserved = bytes + kHugePage;
  void* mapped =
      mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return NoAddressSpace(bytes);
  auto* const first = static_cast<std::byte*>(mapped);
  const uint64_t before =
      RoundUp(reinterpret_cast<uintptr_t>(first), kHugePage) - reinterpret_cast<uintptr_t>(first);
  if (before > 0) munmap(first, before);
  munmap(first + before + bytes, kHugePage - before);
  return first + before;
}

Status FileProblem(const std::string& path, absl::string_view what) {
  return {
      absl::ErrnoToStatusCode(errno),
      absl::StrCat("embedding_ps.arena_directory: '", path, "': ", what, ": ", std::strerror(errno),
                   "; name a folder with room for the rows, in which this user may create files")};
}

std::string FirstLine(const char* path) {
  std::string line;
  std::ifstream in(path);
  std::getline(in, line);
  return line;
}

}  // namespace

PrefaultThread::~PrefaultThread() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  ++queued_;
  queued_.notify_one();
  thread_.join();
}

bool PrefaultThread::Prefault(std::byte* first, uint64_t bytes) {
  const uint32_t queued = queued_.load(std::memory_order_relaxed);
  if (queued - done_.load(std::memory_order_acquire) == kMaxQueued) return false;
  queue_[queued % kMaxQueued] = {first, bytes};
  waiting_bytes_ += bytes;
  queued_.store(queued + 1, std::memory_order_release);
  queued_.notify_one();
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  return true;
}

void PrefaultThread::Run() {
  SetThreadName("prefault");
  for (uint32_t done = 0;; ++done) {
    queued_.wait(done, std::memory_order_acquire);
    if (stopping_) return;
    const Range range = queue_[done % kMaxQueued];
    // Fails before Linux 5.14 and without free memory; the first touch then populates the pages.
    madvise(range.first, range.bytes, MADV_POPULATE_WRITE);
    waiting_bytes_ -= range.bytes;
    done_.store(done + 1, std::memory_order_release);
  }
}

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

uint64_t ArenaRegion::AheadOf(uint64_t used, uint64_t capacity, uint64_t offset) {
  const uint64_t ahead = std::clamp(used / 16, kMinAhead, kMaxAhead);
  return std::min(NextHugePage(used, offset) + ahead / kHugePage * kHugePage, capacity);
}

// Runs once per huge page used, so it also retries ranges that the prefault thread's queue refused.
void ArenaRegion::PrefaultAhead() {
  const uint64_t first = std::max(prefaulted_, NextHugePage(used_, offset_));
  const uint64_t last = AheadOf(used_);
  prefault_at_ = used_ + kHugePage;
  if (first < last && arena_.Prefault(offset_ + first, last - first)) prefaulted_ = last;
}

// Arenas in files, and the kinds of pages that the system provides.

StatusOr<Arena> Arena::CreateInDirectory(const std::string& directory, uint64_t reserved_bytes) {
  const uint64_t size = RoundUp(reserved_bytes, kHugePage);
  SIMURGH_ASSIGN_OR_RETURN(std::byte* const base, ReserveAddresses(size));
  std::string path = absl::StrCat(directory, "/simurgh-XXXXXX");
  Arena arena(base, size, mkostemp(path.data(), O_CLOEXEC));
  if (!arena.in_file()) return FileProblem(directory, "cannot create a file");
  unlink(path.c_str());
  if (ftruncate(arena.file_, static_cast<off_t>(size)) != 0 ||
      mmap(base, size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED | MAP_NORESERVE, arena.file_,
           0) == MAP_FAILED) {
    return FileProblem(directory, absl::StrCat("cannot map a file of ", size >> 20, " MiB"));
  }
  madvise(base, size, MADV_NOHUGEPAGE);
  return arena;
}

Status Arena::Commit(uint64_t offset, uint64_t bytes) {
  if (!in_file()) return absl::OkStatus();
  const uint64_t first = offset / kPage * kPage;
  const uint64_t length = RoundUp(offset + bytes, kPage) - first;
  if (madvise(base_ + first, length, MADV_POPULATE_WRITE) == 0) return absl::OkStatus();
  // Linux before 5.14 lacks MADV_POPULATE_WRITE. fallocate() reserves small pages.
  if (errno == EINVAL &&
      fallocate(file_, 0, static_cast<off_t>(first), static_cast<off_t>(length)) == 0) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "embedding_ps.arena_directory: cannot allocate ", length >> 10,
      " KiB: ", errno == EFAULT ? "the file system is full" : std::strerror(errno),
      "; enlarge the file system, or lower capacity_rows or embedding_ps.memory_budget"));
}

std::string Arena::HugePageProblem() const {
  const char* setting = "/sys/kernel/mm/transparent_hugepage/enabled";
  if (in_file()) {
    struct statfs about;
    if (fstatfs(file_, &about) == 0 && about.f_type == HUGETLBFS_MAGIC) return "";
    setting = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
  }
  const std::string line = FirstLine(setting);
  for (const char* refusing : {"[never]", "[deny]"}) {
    if (line.find(refusing) != std::string::npos) {
      return absl::StrCat(setting, " is ", refusing, "; write 'advise' to it",
                          in_file() ? ", or use a hugetlbfs directory" : "");
    }
  }
  return line.empty() ? absl::StrCat(setting, " is not readable") : "";
}

Status Arena::BindToNode(uint32_t node) {
  constexpr uint32_t kMaxNodes = 1024;
  constexpr uint32_t kBits = 8 * sizeof(unsigned long);
  unsigned long nodes[kMaxNodes / kBits] = {};
  if (node < kMaxNodes) nodes[node / kBits] |= 1UL << node % kBits;
  // mbind() reads one bit less than the number given.
  if (node >= kMaxNodes ||
      syscall(SYS_mbind, base_, size_, MPOL_BIND, nodes, kMaxNodes + 1, 0) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("embedding_ps.numa_nodes: node ", node,
                     " is not usable: ", node < kMaxNodes ? std::strerror(errno) : "no such node",
                     "; use nodes listed by `numactl --hardware`"));
  }
  return absl::OkStatus();
}

}  // namespace simurgh
