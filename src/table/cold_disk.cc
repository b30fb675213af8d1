#include "table/cold_disk.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/file_descriptor.h"
#include "base/hash.h"
#include "base/thread.h"

namespace simurgh {
namespace {

constexpr unsigned kReadsInFlight = 256;

Status SystemError(const std::string& what, int error) {
  const absl::StatusCode code = error == ENOSPC || error == EDQUOT
                                    ? absl::StatusCode::kResourceExhausted
                                    : absl::ErrnoToStatusCode(error);
  return Status(code, absl::StrCat(what, ": ", std::string(strerror(error))));
}

// Makes a file without a name. is_direct: whether it may have O_DIRECT, then whether it has.
StatusOr<FileDescriptor> MakeFile(const std::string& directory, bool& is_direct) {
  for (const int direct : {is_direct ? O_DIRECT : 0, 0}) {
    is_direct = direct != 0;
    const int file = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | direct, 0600);
    if (file >= 0) return FileDescriptor(file);
    if (errno == EINVAL) continue;  // No O_DIRECT.
    if (errno != EOPNOTSUPP && errno != EISDIR) return SystemError(directory, errno);
    std::string name = directory + "/cold-XXXXXX";  // No O_TMPFILE.
    const int named = ::mkostemp(name.data(), O_CLOEXEC | direct);
    const int error = errno;
    ::unlink(name.c_str());  // Exists even after some errors.
    if (named >= 0) return FileDescriptor(named);
    if (error != EINVAL) return SystemError(directory, error);
  }
  return SystemError(directory, EINVAL);
}

class SystemFile : public ColdDisk {
 public:
  SystemFile(FileDescriptor file, std::string directory, bool is_direct, uint64_t segment_bytes,
             const std::array<std::optional<io_uring>, 2>& rings)
      : ColdDisk(segment_bytes),
        file_(std::move(file)),
        directory_(std::move(directory)),
        is_direct_(is_direct),
        rings_(rings) {}
  ~SystemFile() override {
    StopThread();
    for (std::optional<io_uring>& ring : rings_) {
      if (ring) io_uring_queue_exit(&*ring);
    }
  }

  Status Write(uint64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(file_.number(), bytes.data(), bytes.size(), offset);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return SystemError(directory_, errno);
      bytes = bytes.subspan(written);
      offset += written;
    }
    return absl::OkStatus();
  }

  Status Read(std::span<const Part> parts, Reader reader) override {
    std::optional<io_uring>& ring = rings_[static_cast<size_t>(reader)];
    return ring ? ReadByRing(*ring, parts) : ReadByCalls(parts);
  }

  std::string Method() const override {
    return absl::StrCat(rings_[0] ? "io_uring" : "pread", is_direct_ ? ", O_DIRECT" : "");
  }

 private:
  Status Extend(uint64_t offset) override {
    // Reserves the space, so that a write does not find the disk full.
    if (::fallocate(file_.number(), 0, offset, segment_bytes()) == 0) return absl::OkStatus();
    if (errno != EOPNOTSUPP) return SystemError(directory_, errno);
    if (::ftruncate(file_.number(), offset + segment_bytes()) == 0) return absl::OkStatus();
    return SystemError(directory_, errno);
  }

  Status ReadError(int error) const {
    return absl::DataLossError(
        absl::StrCat("cannot read cold rows in ", directory_, ": ", std::string(strerror(error))));
  }

  // Reads a part by single calls.
  Status ReadOne(Part part) {
    while (!part.to.empty()) {
      const ssize_t got = ::pread(file_.number(), part.to.data(), part.to.size(), part.offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ReadError(errno);
      if (got == 0) return absl::DataLossError(absl::StrCat(directory_, ": the file is too short"));
      part.to = part.to.subspan(got);
      part.offset += got;
    }
    return absl::OkStatus();
  }

  Status ReadByCalls(std::span<const Part> parts) {
    // The system begins all reads. Without O_DIRECT only: it reads into its cache.
    if (!is_direct_ && parts.size() > 1) {
      for (const Part& part : parts) {
        ::posix_fadvise(file_.number(), part.offset, part.to.size(), POSIX_FADV_WILLNEED);
      }
    }
    for (const Part& part : parts) SIMURGH_RETURN_IF_ERROR(ReadOne(part));
    return absl::OkStatus();
  }

  Status ReadByRing(io_uring& ring, std::span<const Part> parts) {
    Status result;
    size_t begun = 0;
    size_t in_flight = 0;
    // After an error, the reads in flight still write to their memory.
    while (in_flight > 0 || (begun < parts.size() && result.ok())) {
      while (begun < parts.size() && in_flight < kReadsInFlight && result.ok()) {
        io_uring_sqe* const entry = io_uring_get_sqe(&ring);
        if (entry == nullptr) break;
        const Part& part = parts[begun];
        io_uring_prep_read(entry, file_.number(), part.to.data(), part.to.size(), part.offset);
        io_uring_sqe_set_data64(entry, begun++);
        ++in_flight;
      }
      // Wakes up for many at a time.
      const size_t wanted = begun < parts.size() ? kReadsInFlight / 4 : in_flight;
      const int submitted =
          io_uring_submit_and_wait(&ring, static_cast<unsigned>(std::min(wanted, in_flight)));
      const bool may_repeat =
          submitted >= 0 || submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY;
      SIMURGH_CHECK(may_repeat) << "io_uring: " << strerror(-submitted);
      io_uring_cqe* done = nullptr;
      while (in_flight > 0 && io_uring_peek_cqe(&ring, &done) == 0) {
        Part part = parts[io_uring_cqe_get_data64(done)];
        const int got = done->res;
        io_uring_cqe_seen(&ring, done);
        --in_flight;
        if (got < 0 && got != -EINTR && got != -EAGAIN) {
          result.Update(ReadError(-got));
        } else if (got < static_cast<int>(part.to.size())) {
          const size_t read = got < 0 ? 0 : got;
          result.Update(ReadOne({part.offset + read, part.to.subspan(read)}));
        }
      }
    }
    return result;
  }

  const FileDescriptor file_;
  const std::string directory_;
  const bool is_direct_;
  std::array<std::optional<io_uring>, 2>
      rings_;  // Indexed by reader; unset where the system refuses it.
};

}  // namespace

StatusOr<std::unique_ptr<ColdDisk>> ColdDisk::Create(const std::string& directory,
                                                     uint64_t segment_bytes, bool by_ring) {
  std::array<std::optional<io_uring>, 2> rings;
  for (std::optional<io_uring>& made : rings) {
    io_uring ring;
    if (by_ring && io_uring_queue_init(kReadsInFlight, &ring, 0) == 0) made = ring;
  }
  // Without io_uring only the system's cache reads many parts at a time.
  bool is_direct = rings[0].has_value();
  StatusOr<FileDescriptor> file = MakeFile(directory, is_direct);
  if (!file.ok()) {
    for (std::optional<io_uring>& ring : rings) {
      if (ring) io_uring_queue_exit(&*ring);
    }
    return file.status();
  }
  return std::make_unique<SystemFile>(*std::move(file), directory, is_direct, segment_bytes, rings);
}

ColdDisk::~ColdDisk() { StopThread(); }

void ColdDisk::Hurry(const void* key) {
  const MutexLock lock(mutex_);
  auto& [normal, urgent] = tasks_;
  const auto task = std::ranges::find(normal, key, &Task::key);
  if (task == normal.end()) return;
  urgent.push_back(std::move(*task));
  normal.erase(task);
}

void ColdDisk::Post(std::function<bool()> task, Urgency urgency, const void* key) {
  const MutexLock lock(mutex_);
  if (stopped_) return;
  tasks_[static_cast<size_t>(urgency)].push_back({std::move(task), key});
  changed_.NotifyAll();
  if (thread_.joinable()) return;
  thread_ = std::thread([this] {
    SetThreadName("cold-rows");
    RunTasks();
  });
}

void ColdDisk::StopThread() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    for (auto& tasks : tasks_) tasks.clear();
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void ColdDisk::RunTasks() {
  Task task{};
  size_t from = 0;  // Its queue.
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (task.run) tasks_[from].push_front(std::move(task));
      while (tasks_[0].empty() && tasks_[1].empty() && !stopped_) changed_.Wait(mutex_);
      if (stopped_) return;
      from = tasks_[1].empty() ? 0 : 1;
      task = std::move(tasks_[from].front());
      tasks_[from].pop_front();
    }
    if (!task.run()) continue;
    task = {};
    Wake();
  }
}

Status ColdDisk::KeepReserve() {
  constexpr size_t kLeastFree = 2;
  while (free_.size() < kLeastFree || end_ < live_bytes_ + live_bytes_ * 3 / 10) {
    SIMURGH_RETURN_IF_ERROR(Extend(end_));
    free_.push_back(std::exchange(end_, end_ + segment_bytes_));
  }
  return absl::OkStatus();
}

StatusOr<uint64_t> ColdDisk::Allocate() {
  if (free_.empty()) {
    SIMURGH_RETURN_IF_ERROR(Extend(end_));
    return std::exchange(end_, end_ + segment_bytes_);
  }
  const uint64_t offset = free_.back();
  free_.pop_back();
  return offset;
}

StatusOr<ColdDiskSpeed> MeasureColdDisk(const std::string& directory) {
  constexpr size_t kSegments = 4;
  constexpr size_t kReads = 16'384;
  constexpr size_t kPages = kSegments * ColdDisk::kSegmentBytes / ColdDisk::kAlignment;
  SIMURGH_ASSIGN_OR_RETURN(const auto disk, ColdDisk::Create(directory));
  const std::unique_ptr<void, void (*)(void*)> memory(
      std::aligned_alloc(ColdDisk::kAlignment, ColdDisk::kSegmentBytes), std::free);
  const std::span bytes(static_cast<std::byte*>(memory.get()), ColdDisk::kSegmentBytes);
  std::ranges::fill(bytes, std::byte{1});
  for (size_t i = 0; i < kSegments; ++i) {
    SIMURGH_ASSIGN_OR_RETURN(const uint64_t offset, disk->Allocate());
    SIMURGH_RETURN_IF_ERROR(disk->Write(offset, bytes));
  }
  std::vector<ColdDisk::Part> parts;
  for (size_t i = 0; i < kReads; ++i) {
    const size_t to = i * ColdDisk::kAlignment % bytes.size();
    parts.push_back(
        {Mix64(i) % kPages * ColdDisk::kAlignment, bytes.subspan(to, ColdDisk::kAlignment)});
  }
  const auto begin = std::chrono::steady_clock::now();
  SIMURGH_RETURN_IF_ERROR(disk->Read(parts));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return ColdDiskSpeed{.method = disk->Method(),
                       .reads_per_second = static_cast<double>(kReads) / seconds.count()};
}

}  // namespace simurgh
