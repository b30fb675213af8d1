// Arenas in files, and what the machine has to say about their pages.

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mempolicy.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "table/address_space.h"
#include "table/arena.h"

namespace simurgh {
namespace {

Status FileProblem(const std::string& path, absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat("arena '", path, "': ", what));
}

StatusOr<int> OpenLocked(const std::string& path, int flags) {
  const int file = open(path.c_str(), flags | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return FileProblem(path, "cannot open the file");
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  close(file);
  return absl::FailedPreconditionError(
      absl::StrCat("arena '", path, "': another process has it; stop that, or give each server a ",
                   "directory of its own"));
}

std::string FirstLine(const char* path) {
  std::string line;
  std::ifstream in(path);
  std::getline(in, line);
  return line;
}

}  // namespace

// Owns `file` from here on.
StatusOr<Arena> Arena::MapFile(const std::string& path, int file, uint64_t size) {
  auto base = ReserveAddresses(size);
  if (!base.ok()) {
    close(file);
    return base.status();
  }
  Arena arena(*base, size, file);
  if (mmap(*base, size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED | MAP_NORESERVE, file, 0) ==
      MAP_FAILED) {
    return FileProblem(path, absl::StrCat("cannot map ", size >> 20, " MiB"));
  }
  return arena;
}

StatusOr<Arena> Arena::CreateShared(const std::string& path, uint64_t reserved_bytes,
                                    uint64_t identity) {
  const uint64_t size = RoundUp(reserved_bytes + sizeof(ArenaSuperblock), kHugePage);
  SIMURGH_ASSIGN_OR_RETURN(const int file, OpenLocked(path, O_CREAT));
  if (ftruncate(file, 0) != 0 || ftruncate(file, static_cast<off_t>(size)) != 0) {
    const Status problem = FileProblem(path, absl::StrCat("cannot be ", size >> 20, " MiB long"));
    close(file);
    return problem;
  }
  SIMURGH_ASSIGN_OR_RETURN(Arena arena, MapFile(path, file, size));
  madvise(arena.base_, size, MADV_NOHUGEPAGE);
  SIMURGH_RETURN_IF_ERROR(arena.Commit(0, sizeof(ArenaSuperblock)));
  arena.WriteSuperblock(identity);
  return arena;
}

StatusOr<Arena> Arena::MapShared(const std::string& path, uint64_t identity) {
  SIMURGH_ASSIGN_OR_RETURN(const int file, OpenLocked(path, 0));
  struct stat about;
  ArenaSuperblock block;
  if (fstat(file, &about) != 0 || about.st_size < static_cast<off_t>(sizeof(block)) ||
      pread(file, &block, sizeof(block), 0) != static_cast<ssize_t>(sizeof(block)) ||
      block.magic != kArenaMagic || block.version != kArenaVersion ||
      block.superblock_bytes != sizeof(block) ||
      block.size_bytes != static_cast<uint64_t>(about.st_size) ||
      block.used_bytes > block.size_bytes) {
    close(file);
    return absl::DataLossError(absl::StrCat("arena '", path, "': no superblock of version ",
                                            kArenaVersion, ", or not whole; remove the file"));
  }
  if (block.identity != identity) {
    close(file);
    return absl::FailedPreconditionError(absl::StrCat(
        "arena '", path, "': holds tables of another configuration; restore that, or remove it"));
  }
  return MapFile(path, file, block.size_bytes);
}

Status Arena::Commit(uint64_t offset, uint64_t bytes) {
  if (!shared()) return absl::OkStatus();
  constexpr uint64_t kPage = 4096;
  const uint64_t first = offset / kPage * kPage;
  const uint64_t length = RoundUp(offset + bytes, kPage) - first;
  if (madvise(base_ + first, length, MADV_POPULATE_WRITE) == 0) return absl::OkStatus();
  // Linux before 5.14 does not know it. The other way asks for small pages.
  if (errno == EINVAL &&
      fallocate(file_, 0, static_cast<off_t>(first), static_cast<off_t>(length)) == 0) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "arena: no memory for ", length >> 10,
      " KiB more: ", errno == EFAULT ? "its file system is full" : std::strerror(errno),
      "; enlarge that, or lower capacity_rows or embedding_ps.memory_budget"));
}

std::string Arena::HugePageProblem() const {
  const char* setting = "/sys/kernel/mm/transparent_hugepage/enabled";
  if (shared()) {
    struct statfs about;
    if (fstatfs(file_, &about) == 0 && about.f_type == HUGETLBFS_MAGIC) return "";
    setting = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
  }
  const std::string line = FirstLine(setting);
  for (const char* refusing : {"[never]", "[deny]"}) {
    if (line.find(refusing) != std::string::npos) {
      return absl::StrCat(setting, " says ", refusing, "; write 'advise' to it",
                          shared() ? ", or use a directory of hugetlbfs" : "");
    }
  }
  return line.empty() ? absl::StrCat(setting, " cannot be read") : "";
}

Status Arena::BindToNode(uint32_t node) {
  constexpr uint32_t kMaxNodes = 1024;
  constexpr uint32_t kBits = 8 * sizeof(unsigned long);
  unsigned long nodes[kMaxNodes / kBits] = {};
  if (node < kMaxNodes) nodes[node / kBits] |= 1UL << node % kBits;
  // The kernel reads one bit less than it is told.
  if (node >= kMaxNodes ||
      syscall(SYS_mbind, base_, size_, MPOL_BIND, nodes, kMaxNodes + 1, 0) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("table: memory of NUMA node ", node,
                     " cannot be had: ", node < kMaxNodes ? std::strerror(errno) : "no such node"));
  }
  return absl::OkStatus();
}

}  // namespace simurgh
