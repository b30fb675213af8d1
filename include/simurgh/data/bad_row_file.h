#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/mutex.h"
#include "simurgh/config/checkpoint_config.h"

namespace simurgh {

// A CSV file with place, reason and text of the first bad rows of a run.
//
// Threads: any.
class BadRowFile {
 public:
  static constexpr size_t kRows = 10;
  static constexpr size_t kTextBytes = 4'096;  // Of a row; longer ones are cut.

  // The file is next to the model's directory: DIRECTORY.bad-rows<process>.csv. Without a directory
  // there is none. It is written with the first row, and replaces an older one.
  BadRowFile(const CheckpointConfig& checkpoint, std::string_view process);

  // Writes one of the first kRows rows. The log names the file with the first one, or why it cannot
  // be written.
  void Add(std::string_view place, std::string_view reason, std::string_view row);

 private:
  std::string path_;  // Empty: no file.
  Mutex mutex_;
  size_t rows_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace simurgh
