#include "rpc/memory_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "absl/strings/str_cat.h"

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

}  // namespace simurgh::rpc
