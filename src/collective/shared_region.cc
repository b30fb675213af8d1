#include "collective/shared_region.h"

#include <cstring>
#include <random>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

constexpr size_t kHead = 4'096;  // A page before bytes(), for the secret.

}  // namespace

std::unique_ptr<SharedRegion> SharedRegion::Map(const Key& key, const FileDescriptor& file,
                                                size_t size, int protection) {
  void* const data =
      ::mmap(nullptr, kHead + size, protection, MAP_SHARED | MAP_NORESERVE, file.number(), 0);
  if (data == MAP_FAILED) return nullptr;
  (void)::madvise(data, kHead + size, MADV_DONTDUMP);
  return std::unique_ptr<SharedRegion>(new SharedRegion(key, static_cast<std::byte*>(data), size));
}

std::unique_ptr<SharedRegion> SharedRegion::Create(size_t size) {
  FileDescriptor file(::memfd_create("simurgh sums", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  std::random_device random;
  const Key key{.process = static_cast<uint64_t>(::getpid()),
                .file = file.number(),
                .secret = uint64_t{random()} << 32 | random()};
  // A read beyond the end of a file that shrank would kill the reader: forbid shrinking.
  if (!file.valid() || ::ftruncate(file.number(), static_cast<off_t>(kHead + size)) != 0 ||
      ::fcntl(file.number(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return nullptr;
  }
  std::unique_ptr<SharedRegion> region = Map(key, file, size, PROT_READ | PROT_WRITE);
  if (region == nullptr) return nullptr;
  region->file_ = std::move(file);
  std::memcpy(region->data_, &key.secret, sizeof(key.secret));
  return region;
}

std::unique_ptr<SharedRegion> SharedRegion::Open(const Key& key, size_t size) {
  if (key.process == 0) return nullptr;
  const std::string path = absl::StrCat("/proc/", key.process, "/fd/", key.file);
  // The process id may belong to an unrelated process: check the file.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  if (!file.valid() || ::fstat(file.number(), &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_size != static_cast<off_t>(kHead + size)) {
    return nullptr;
  }
  const int seals = ::fcntl(file.number(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return nullptr;
  std::unique_ptr<SharedRegion> region = Map({}, file, size, PROT_READ);
  if (region == nullptr) return nullptr;
  const bool is_meant = std::memcmp(region->data_, &key.secret, sizeof(key.secret)) == 0;
  return is_meant ? std::move(region) : nullptr;
}

SharedRegion::~SharedRegion() { ::munmap(data_, kHead + size_); }

std::span<std::byte> SharedRegion::bytes() const { return {data_ + kHead, size_}; }

}  // namespace simurgh
