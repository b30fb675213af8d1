#include "model/bucket_object.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace simurgh {
namespace {

// Read when a file is opened: a manifest, or the header and checksums of most tensor files.
constexpr uint64_t kHeadBytes = uint64_t{128} << 10;
// A larger read is split into requests at the same time.
constexpr uint64_t kRequestBytes = uint64_t{4} << 20;
constexpr size_t kRequestsAtOnce = 8;

Status ReadOnly(const std::string& name) {
  return absl::FailedPreconditionError(absl::StrCat(name, ": the object is open to be read"));
}

// Runs the work in a thread of its own. With too few threads, it runs when its result is asked for.
template <typename Work>
auto InBackground(Work work) {
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, work);
  }
}

class ReadObject : public File {
 public:
  ReadObject(ObjectStore& store, std::string key, ObjectStore::Object head)
      : store_(store),
        key_(std::move(key)),
        tag_(std::move(head.tag)),
        size_(head.whole),
        head_(std::move(head.bytes)) {}

  Status Allocate(uint64_t /*bytes*/) override { return ReadOnly(store_.NameOf(key_)); }
  Status Write(uint64_t /*offset*/, std::span<const std::byte> /*bytes*/) override {
    return ReadOnly(store_.NameOf(key_));
  }
  Status Sync() override { return ReadOnly(store_.NameOf(key_)); }
  StatusOr<uint64_t> Size() override { return size_; }
  Status Read(uint64_t offset, std::span<std::byte> bytes) override;
  void StartRead(uint64_t offset, uint64_t bytes) override;
  StatusOr<std::shared_ptr<const std::byte>> Map(uint64_t offset, uint64_t bytes) override;

 private:
  Status Fetch(uint64_t offset, std::span<std::byte> bytes);

  ObjectStore& store_;
  const std::string key_;
  const std::string tag_;
  const uint64_t size_;
  const std::string head_;
  struct Ahead {
    std::vector<std::byte> bytes;
    std::future<Status> done;
  };
  Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Ahead>> ahead_ ABSL_GUARDED_BY(mutex_);  // Keyed by offset.
};

// Reads in requests of kRequestBytes, several at the same time.
Status ReadObject::Fetch(uint64_t offset, std::span<std::byte> bytes) {
  const size_t requests = (bytes.size() + kRequestBytes - 1) / kRequestBytes;
  return ForEachAtOnce(requests, kRequestsAtOnce, [&](size_t i) {
    const size_t begin = i * kRequestBytes;
    const size_t size = std::min<size_t>(kRequestBytes, bytes.size() - begin);
    return store_.Read(key_, tag_, offset + begin, bytes.subspan(begin, size));
  });
}

Status ReadObject::Read(uint64_t offset, std::span<std::byte> bytes) {
  if (offset > size_ || bytes.size() > size_ - offset) {
    return absl::DataLossError(absl::StrCat(store_.NameOf(key_), ": the object ends at byte ",
                                            size_, ", ", offset + bytes.size() - size_,
                                            " bytes too early"));
  }
  if (offset < head_.size()) {
    const size_t count = std::min<size_t>(bytes.size(), head_.size() - offset);
    std::memcpy(bytes.data(), head_.data() + offset, count);
    bytes = bytes.subspan(count);
    offset += count;
  }
  if (bytes.empty()) return absl::OkStatus();
  std::shared_ptr<Ahead> ahead;
  {
    const MutexLock lock(mutex_);
    const auto found = ahead_.find(offset);
    if (found != ahead_.end()) {
      ahead = found->second;
      ahead_.erase(found);
    }
  }
  if (ahead == nullptr || ahead->bytes.size() < bytes.size()) return Fetch(offset, bytes);
  SIMURGH_RETURN_IF_ERROR(ahead->done.get());
  std::memcpy(bytes.data(), ahead->bytes.data(), bytes.size());
  return absl::OkStatus();
}

void ReadObject::StartRead(uint64_t offset, uint64_t bytes) {
  const uint64_t end = std::min(offset + bytes, size_);
  const uint64_t begin = std::max<uint64_t>(offset, head_.size());
  if (begin >= end) return;
  auto ahead = std::make_shared<Ahead>();
  ahead->bytes.resize(end - begin);
  // The task keeps the bytes; the destructor of the future waits for it.
  ahead->done =
      InBackground([this, begin, bytes = std::span(ahead->bytes)] { return Fetch(begin, bytes); });
  const MutexLock lock(mutex_);
  ahead_.insert_or_assign(begin, std::move(ahead));
}

// Copies the bytes to a file without a name, since a mapping needs one.
StatusOr<std::shared_ptr<const std::byte>> ReadObject::Map(uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return std::shared_ptr<const std::byte>();
  std::error_code failed;
  const std::string folder = std::filesystem::temp_directory_path(failed).string();
  if (failed) {
    return absl::FailedPreconditionError(absl::StrCat("TMPDIR: no folder for a copy of ",
                                                      store_.NameOf(key_), ": ", failed.message(),
                                                      "; correct the variable"));
  }
  constexpr mode_t kOwn = 0600;
  const FileDescriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kOwn));
  if (!file.valid()) {
    return ErrnoStatus(errno, absl::StrCat("cannot create a file in ", folder,
                                           " for rows of a bucket; name another folder in TMPDIR"));
  }
  const int room = ::posix_fallocate(file.number(), 0, static_cast<off_t>(bytes));
  if (room == ENOSPC || room == EDQUOT) {
    SIMURGH_ASSIGN_OR_RETURN(const uint64_t free, FileSystem::Real().FreeBytes(folder));
    return DiskFullError(folder, absl::StrCat("the copy of ", store_.NameOf(key_)), bytes, free);
  }
  if (room != 0) return ErrnoStatus(room, absl::StrCat("cannot reserve room in ", folder));
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
  if (memory == MAP_FAILED)
    return ErrnoStatus(errno, absl::StrCat("cannot map a file in ", folder));
  std::shared_ptr<std::byte> mapped(
      static_cast<std::byte*>(memory),
      [bytes](const std::byte* begin) { ::munmap(const_cast<std::byte*>(begin), bytes); });
  constexpr uint64_t kPiece = 4 * kRequestBytes;
  for (uint64_t at = 0; at < bytes; at += kPiece) {
    const uint64_t size = std::min(kPiece, bytes - at);
    SIMURGH_RETURN_IF_ERROR(Read(offset + at, {mapped.get() + at, size}));
  }
  if (::mprotect(memory, bytes, PROT_READ) != 0) {
    return ErrnoStatus(errno, "cannot protect a mapping");
  }
  ::madvise(memory, bytes, MADV_RANDOM);  // Only a hint: neighbours are not read.
  return mapped;
}

class WrittenObject : public File {
 public:
  WrittenObject(ObjectStore& store, std::string key, uint64_t part_bytes,
                std::counting_semaphore<>& uploads)
      : store_(store), key_(std::move(key)), part_bytes_(part_bytes), uploads_(uploads) {}
  WrittenObject(const WrittenObject&) = delete;
  WrittenObject& operator=(const WrittenObject&) = delete;
  ~WrittenObject() override;

  Status Allocate(uint64_t bytes) override;
  Status Write(uint64_t offset, std::span<const std::byte> bytes) override;
  Status Sync() override;
  StatusOr<uint64_t> Size() override { return size_; }
  Status Read(uint64_t /*offset*/, std::span<std::byte> /*bytes*/) override {
    return absl::FailedPreconditionError(
        absl::StrCat(store_.NameOf(key_), ": the object is open to be written"));
  }

 private:
  struct Part {
    std::string bytes;
    uint64_t written = 0;
  };
  // Begins to upload a part, in a thread of its own. index: from 0.
  Status StartPart(uint64_t index, std::string bytes);
  // Waits for the parts under way, and notes their tags.
  Status AwaitParts();

  ObjectStore& store_;
  const std::string key_;
  uint64_t part_bytes_;
  std::counting_semaphore<>& uploads_;
  uint64_t size_ = 0;               // End of the last byte written, or of the room reserved.
  std::map<uint64_t, Part> parts_;  // Parts that are not full, by index.
  std::optional<ObjectStore::Upload> upload_;
  std::map<uint64_t, std::future<StatusOr<std::string>>> under_way_;
  std::map<uint64_t, std::string> tags_;
  bool is_done_ = false;
};

WrittenObject::~WrittenObject() {
  if (is_done_ || !upload_) return;
  AwaitParts().IgnoreError();
  store_.Abort(*upload_).IgnoreError();
}

Status WrittenObject::Allocate(uint64_t bytes) {
  size_ = std::max(size_, bytes);
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const uint64_t least = (bytes / ObjectStore::kMaxParts / kMiB + 1) * kMiB;
  if (bytes > part_bytes_ * ObjectStore::kMaxParts) part_bytes_ = least;
  return absl::OkStatus();
}

Status WrittenObject::Write(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const uint64_t index = offset / part_bytes_;
    const uint64_t at = offset % part_bytes_;
    const uint64_t count = std::min<uint64_t>(bytes.size(), part_bytes_ - at);
    Part& part = parts_[index];
    if (part.bytes.size() < at + count) part.bytes.resize(at + count);
    std::memcpy(part.bytes.data() + at, bytes.data(), count);
    part.written += count;
    size_ = std::max(size_, offset + count);
    if (part.written == part_bytes_) {
      std::string full = std::move(part.bytes);
      parts_.erase(index);
      SIMURGH_RETURN_IF_ERROR(StartPart(index, std::move(full)));
    }
    bytes = bytes.subspan(count);
    offset += count;
  }
  return absl::OkStatus();
}

Status WrittenObject::StartPart(uint64_t index, std::string bytes) {
  if (!upload_) {
    SIMURGH_ASSIGN_OR_RETURN(upload_, store_.BeginUpload(key_));
  }
  // A failed part ends the file at once.
  for (auto at = under_way_.begin(); at != under_way_.end();) {
    if (at->second.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      ++at;
      continue;
    }
    StatusOr<std::string> tag = at->second.get();
    const uint64_t done = at->first;
    at = under_way_.erase(at);
    SIMURGH_RETURN_IF_ERROR(tag.status());
    tags_[done] = *std::move(tag);
  }
  uploads_.acquire();
  // The future would keep the bytes until its result is read.
  auto own = std::make_shared<std::string>(std::move(bytes));
  std::future<StatusOr<std::string>> part =
      InBackground([this, index, own, upload = *upload_]() -> StatusOr<std::string> {
        const absl::Cleanup release = [&] {
          std::string().swap(*own);
          uploads_.release();
        };
        return store_.PutPart(upload, index + 1, *own);
      });
  // Others wait for its place among the uploads.
  if (part.wait_for(std::chrono::seconds(0)) == std::future_status::deferred) part.wait();
  under_way_[index] = std::move(part);
  return absl::OkStatus();
}

Status WrittenObject::AwaitParts() {
  Status status;
  for (auto& [index, part] : under_way_) {
    StatusOr<std::string> tag = part.get();
    status.Update(tag.status());
    if (tag.ok()) tags_[index] = *std::move(tag);
  }
  under_way_.clear();
  return status;
}

Status WrittenObject::Sync() {
  if (is_done_) return absl::OkStatus();
  // Bytes that were not written are zero, as in a file of a disk.
  const uint64_t count = (size_ + part_bytes_ - 1) / part_bytes_;
  for (uint64_t index = 0; index < count; ++index) {
    if (tags_.contains(index) || under_way_.contains(index)) continue;
    std::string bytes = std::move(parts_[index].bytes);
    parts_.erase(index);
    bytes.resize(std::min(part_bytes_, size_ - index * part_bytes_));
    if (count == 1) {
      SIMURGH_RETURN_IF_ERROR(store_.Put(key_, bytes, {}).status());
      is_done_ = true;
      return absl::OkStatus();
    }
    SIMURGH_RETURN_IF_ERROR(StartPart(index, std::move(bytes)));
  }
  if (count == 0) SIMURGH_RETURN_IF_ERROR(store_.Put(key_, "", {}).status());
  SIMURGH_RETURN_IF_ERROR(AwaitParts());
  if (upload_) {
    std::vector<std::string> tags;
    for (auto& [index, tag] : tags_) tags.push_back(tag);
    SIMURGH_RETURN_IF_ERROR(store_.Complete(*upload_, tags, size_));
  }
  is_done_ = true;
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<File>> OpenObject(ObjectStore& store, const std::string& key) {
  SIMURGH_ASSIGN_OR_RETURN(std::optional<ObjectStore::Object> head, store.Get(key, kHeadBytes));
  if (!head) return absl::InternalError("an object without a known tag is not unchanged");
  return std::make_unique<ReadObject>(store, key, *std::move(head));
}

std::unique_ptr<File> CreateObject(ObjectStore& store, std::string key, uint64_t part_bytes,
                                   std::counting_semaphore<>& uploads) {
  return std::make_unique<WrittenObject>(store, std::move(key), part_bytes, uploads);
}

}  // namespace simurgh
