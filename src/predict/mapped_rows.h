#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "base/status.h"
#include "model/tensor_file.h"

namespace simurgh {

// Rows in files that are mapped. The rows of all files are numbered in their order.
//
// Threads: one owner while files are added, then any.
class MappedRows {
 public:
  uint64_t rows() const { return rows_; }

  // Adds a file's weights; null for no rows.
  void Add(std::shared_ptr<const std::byte> weights, uint64_t rows) {
    files_.push_back({rows_, std::move(weights)});
    rows_ += rows;
  }
  // Adds the files of other rows.
  void Add(const MappedRows& other) {
    for (const File& file : other.files_) files_.push_back({rows_ + file.first, file.weights});
    rows_ += other.rows_;
  }

  const std::byte* row(uint64_t row, size_t row_bytes) const {
    const auto next = std::ranges::upper_bound(files_, row, {}, &File::first);
    const File& file = *std::prev(next);
    return file.weights.get() + (row - file.first) * row_bytes;
  }

 private:
  struct File {
    uint64_t first;  // Number of its first row.
    std::shared_ptr<const std::byte> weights;
  };

  uint64_t rows_ = 0;
  std::vector<File> files_;
};

// Compares the checksums of the weights in a file. Errors: those of TensorFileReader::Read().
// ends: ends it early, without an error.
Status CheckWeights(TensorFileReader& file, const std::atomic<bool>& ends);

// Checks the weights of mapped files, which are used meanwhile, on its own thread.
//
// Threads: any.
class WeightsCheck {
 public:
  explicit WeightsCheck(std::vector<TensorFileReader> files);
  ~WeightsCheck() { ends_ = true; }
  WeightsCheck(const WeightsCheck&) = delete;
  WeightsCheck& operator=(const WeightsCheck&) = delete;

  // Returns the damage that was found so far. Cheap.
  Status status() const {
    if (!is_damaged_.load(std::memory_order_acquire)) return absl::OkStatus();
    const MutexLock lock(mutex_);
    return damage_;
  }

 private:
  void Run(std::vector<TensorFileReader> files);

  std::atomic<bool> ends_ = false;
  std::atomic<bool> is_damaged_ = false;
  mutable Mutex mutex_;
  Status damage_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace simurgh
