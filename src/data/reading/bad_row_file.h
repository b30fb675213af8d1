#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "config/service_config.h"

namespace simurgh {

// A CSV file with place, reason and text of the first bad rows of a run.
//
// Threads: any.
class BadRowFile {
 public:
  static constexpr size_t kRows = 10;
  static constexpr size_t kTextBytes = 4'096;  // Longer rows are cut.

  // Prepares a file next to the model's directory: DIRECTORY.bad-rows<process>.csv. Without a
  // directory there is none. The first row creates the file, which replaces an older one.
  BadRowFile(const CheckpointConfig& checkpoint, std::string_view process);

  // Writes one of the first kRows rows, unless a row of its place is written: later epochs find the
  // same rows. With the first one, logs the file, or why it cannot be written.
  void Add(std::string_view place, std::string_view reason, std::string_view row);

 private:
  Mutex mutex_;
  std::string path_ ABSL_GUARDED_BY(mutex_);                 // Empty: no file, or no longer.
  std::vector<std::string> places_ ABSL_GUARDED_BY(mutex_);  // Places of the written rows.
};

}  // namespace simurgh
