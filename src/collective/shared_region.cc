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

// A read beyond the end of a file that shrank would kill the reader.
bool Seal(int file) {
  return ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}
bool IsSealed(int file) {
  const int seals = ::fcntl(file, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

uint64_t NewSecret() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

std::unique_ptr<SharedRegion> SharedRegion::Map(const Key& key, int file, size_t size,
                                                int protection) {
  void* const data = ::mmap(nullptr, kHead + size, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (data == MAP_FAILED) return nullptr;
  (void)::madvise(data, kHead + size, MADV_DONTDUMP);
  return std::unique_ptr<SharedRegion>(new SharedRegion(key, static_cast<std::byte*>(data), size));
}

std::unique_ptr<SharedRegion> SharedRegion::Create(size_t size) {
  const int file = ::memfd_create("simurgh sums", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return nullptr;
  const Key key{.process = static_cast<uint64_t>(::getpid()), .file = file, .secret = NewSecret()};
  std::unique_ptr<SharedRegion> region;
  if (::ftruncate(file, static_cast<off_t>(kHead + size)) == 0 && Seal(file)) {
    region = Map(key, file, size, PROT_READ | PROT_WRITE);
  }
  if (region == nullptr) {
    ::close(file);
    return nullptr;
  }
  std::memcpy(region->data_, &key.secret, sizeof(key.secret));
  return region;
}

std::unique_ptr<SharedRegion> SharedRegion::Open(const Key& key, size_t size) {
  if (key.process == 0) return nullptr;
  const std::string path = absl::StrCat("/proc/", key.process, "/fd/", key.file);
  // The process id may belong to an unrelated process: check the file.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return nullptr;
  struct stat info{};
  std::unique_ptr<SharedRegion> region;
  if (::fstat(file, &info) == 0 && S_ISREG(info.st_mode) &&
      info.st_size == static_cast<off_t>(kHead + size) && IsSealed(file)) {
    region = Map({}, file, size, PROT_READ);
  }
  ::close(file);
  if (region == nullptr) return nullptr;
  const bool is_meant = std::memcmp(region->data_, &key.secret, sizeof(key.secret)) == 0;
  return is_meant ? std::move(region) : nullptr;
}

SharedRegion::~SharedRegion() {
  ::munmap(data_, kHead + size_);
  if (key_.file >= 0) ::close(static_cast<int>(key_.file));
}

std::span<std::byte> SharedRegion::bytes() const { return {data_ + kHead, size_}; }

}  // namespace simurgh
