#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"

#include "services/api/row_server.h"
#include "services/embedding_ps/server_environment.h"
#include "simurgh/base/mutex.h"

namespace simurgh {

// Saves or loads a server's rows beside its requests, while a trainer asks for the progress.
//
// Threads: any.
class RowTask {
 public:
  // The work reports with these.
  struct Progress {
    std::atomic<uint64_t> rows = 0;
    std::atomic<uint64_t> all_rows = 0;
    std::atomic<bool> stopped = false;  // The work must end with an error.
  };
  struct Work {
    // Returns the files that it has written.
    std::function<StatusOr<std::vector<ModelFile>>(Progress& progress)> run;
    uint64_t bytes = 0;  // Size of these files.
  };

  explicit RowTask(TaskStarter start) : start_(std::move(start)) {}
  // Stops the work and waits.
  ~RowTask();

  // The first call with a name starts the work that `begin` returns; the next ones with this name
  // report. A call with another name stops the work in progress, and fails with ABORTED until that
  // has ended. Errors also: those of `begin`, and then nothing has started; those of the work.
  StatusOr<SaveProgress> StartOrReport(const std::string& name,
                                       absl::FunctionRef<StatusOr<Work>()> begin);

  // Whether the last work has this name, or an earlier one had: calls may arrive late.
  bool IsLast(const std::string& name);
  bool IsEarlier(const std::string& name);

  // Stops the work in progress. Errors: ABORTED until it has ended.
  Status Stop();

 private:
  void Run(const Work& work);

  const TaskStarter start_;
  Progress progress_;
  Mutex mutex_;
  std::string name_ ABSL_GUARDED_BY(mutex_);  // Of the last work; empty before the first one.
  std::deque<std::string> earlier_ ABSL_GUARDED_BY(mutex_);  // Names of works before that one.
  bool done_ ABSL_GUARDED_BY(mutex_) = true;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  StatusOr<std::vector<ModelFile>> result_ ABSL_GUARDED_BY(mutex_) = std::vector<ModelFile>();
  std::function<void()> join_ ABSL_GUARDED_BY(mutex_);  // Empty before the first work.
};

}  // namespace simurgh
