// Arenas in files, and the kinds of pages that the system provides.

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "table/address_space.h"
#include "table/arena.h"

namespace simurgh {
namespace {

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
  constexpr uint64_t kPage = 4096;
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
