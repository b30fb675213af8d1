#include "table/address_space.h"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>

#include "absl/strings/str_cat.h"

namespace simurgh {

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

Status NoAddressSpace(uint64_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "embedding_ps: cannot reserve ", bytes >> 20, " MiB of address space: ", std::strerror(errno),
      "; lower capacity_rows, use more partitions, or allow overcommit (vm.overcommit_memory)"));
}

}  // namespace simurgh
