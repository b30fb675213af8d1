#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/aligned_buffer.h"
#include "base/mutex.h"
#include "base/status.h"

namespace simurgh {

// The file of a partition's cold rows. It has no name, so it goes with the process, whatever ends
// it, and several servers may use one folder.
//
// Threads: one owner; Read() also on the disk's own thread.
class ColdDisk {
 public:
  static constexpr uint64_t kSegmentBytes = uint64_t{8} << 20;
  // Offsets, sizes and memory of reads and writes are multiples of this.
  static constexpr uint64_t kAlignment = 4096;

  struct Part {
    uint64_t offset;
    std::span<std::byte> to;
  };

  // Reads through io_uring, with O_DIRECT where the file system has it. Where the system refuses
  // io_uring, it reads by single calls, through the system's cache.
  // Errors: of making a file in the folder, naming it.
  // segment_bytes: a multiple of 32 times the alignment. by_ring: false: reads by single calls.
  static StatusOr<std::unique_ptr<ColdDisk>> Create(const std::string& directory,
                                                    uint64_t segment_bytes = kSegmentBytes,
                                                    bool by_ring = true);
  explicit ColdDisk(uint64_t segment_bytes) : segment_bytes_(segment_bytes) {}
  virtual ~ColdDisk();

  uint64_t segment_bytes() const { return segment_bytes_; }

  // Rows that come and go leave gaps, and the rewriting of segments needs others. So the file has
  // three tenths more than the bytes of its rows, and more rows are refused before. Errors:
  // RESOURCE_EXHAUSTED if the disk is full.
  Status KeepReserve();
  // Notes rows that have been added or removed.
  void AddLive(int64_t bytes) { live_bytes_ += bytes; }
  // Returns the offset of a free segment. Errors: of KeepReserve(), if none is left.
  StatusOr<uint64_t> Allocate();
  // The segment's space serves the next segments.
  void Free(uint64_t offset) { free_.push_back(offset); }

  // Errors: of the system.
  virtual Status Write(uint64_t offset, std::span<const std::byte> bytes) = 0;
  // The owner's thread, or the disk's.
  enum class Reader : uint8_t { kOwner, kAhead };
  // Reads all parts, many at a time. Errors: DATA_LOSS.
  virtual Status Read(std::span<const Part> parts, Reader reader = Reader::kOwner) = 0;

  // Runs a task on the disk's thread until it returns true, after those before of its urgency.
  // Between two calls of a normal one, urgent tasks run. wake: of SetWake(), called at its end.
  // key: names it for Hurry(); may be null.
  enum class Urgency : uint8_t { kNormal, kUrgent };
  virtual void Post(std::function<bool()> task, Urgency urgency, const void* key);
  // Makes a normal task urgent, unless a call of it runs or it has ended.
  void Hurry(const void* key);
  // wake: called on the disk's thread. Call before the first Post().
  void SetWake(std::function<void()> wake) { wake_ = std::move(wake); }
  // Drops tasks that have not begun, and waits for the one that has.
  void StopThread();

  // Memory that the tables of a partition share, for one call at a time.
  struct Scratch {
    AlignedBuffer fetched;
    AlignedBuffer block;
  };
  Scratch& scratch() { return scratch_; }
  // Bytes of records that are read ahead, for all tables, and the most of them.
  uint64_t& ahead_bytes() { return ahead_bytes_; }
  static constexpr uint64_t kMostAhead = uint64_t{64} << 20;

  // How it reads, for the log.
  virtual std::string Method() const = 0;

 protected:
  // Tells that a task has ended.
  void Wake() const {
    if (wake_) wake_();
  }

 private:
  // Extends the file by a segment. Errors: of Allocate().
  virtual Status Extend(uint64_t offset) = 0;

  void RunTasks();

  const uint64_t segment_bytes_;
  Scratch scratch_;
  uint64_t ahead_bytes_ = 0;
  uint64_t end_ = 0;
  uint64_t live_bytes_ = 0;
  std::vector<uint64_t> free_;
  std::function<void()> wake_;
  Mutex mutex_;
  CondVar changed_;
  struct Task {
    std::function<bool()> run;
    const void* key;
  };
  std::array<std::deque<Task>, 2> tasks_ ABSL_GUARDED_BY(mutex_);  // Indexed by urgency.
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // From the first task on.
};

// What a folder's disk gives to cold rows.
struct ColdDiskSpeed {
  std::string method;
  double reads_per_second = 0;  // Reads of single rows, many at a time.
};

// Writes 32 MiB and reads 16,384 pages of them at random. Errors: of ColdDisk.
StatusOr<ColdDiskSpeed> MeasureColdDisk(const std::string& directory);

}  // namespace simurgh
