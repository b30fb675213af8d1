#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "base/status.h"
#include "model/model_directory.h"

namespace simurgh {

// Returns the lines of a history whose steps are at most `step`. Lines that are no JSON objects are
// left out, such as one that was cut off.
std::string LinesUpTo(std::string_view text, uint64_t step);

// Removes every second line of progress. The learning rates of a removed line move to the next
// line of progress, unless that has others.
std::string ThinnedLines(std::string_view text);

// The file history.jsonl of a model in a bucket, where nothing can be appended. The lines are in
// memory, and a thread writes the whole file on demand. Beyond 16 MiB the lines are thinned. A
// failed write is logged once.
//
// Threads: any.
class BucketHistory {
 public:
  // Reads the file. step, generation: those of this start of training.
  // Errors: those of ModelDirectory::ReadHistory(), except NOT_FOUND.
  static StatusOr<std::unique_ptr<BucketHistory>> Open(const ModelDirectory& directory,
                                                       uint64_t step, uint64_t generation);
  BucketHistory(const BucketHistory&) = delete;
  // Writes the lines that are not written yet.
  ~BucketHistory();

  // Adds a line, without its end.
  void Add(std::string_view line);
  // Makes the thread write. Does not wait for it.
  void Write();

 private:
  static constexpr size_t kMostBytes = size_t{16} << 20;

  BucketHistory(const ModelDirectory& directory, uint64_t generation, std::string text);

  void Run();

  ModelDirectory directory_;
  const uint64_t generation_;
  Mutex mutex_;
  CondVar changed_;
  std::string text_ ABSL_GUARDED_BY(mutex_);
  size_t most_bytes_ ABSL_GUARDED_BY(mutex_) = kMostBytes;  // Longest text that is not thinned.
  bool is_new_ ABSL_GUARDED_BY(mutex_) = false;             // There are lines that are not written.
  bool is_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // The last member: its thread uses the others.
};

}  // namespace simurgh
