#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"

#include "services/api/row_server.h"
#include "services/embedding_ps/row_loader.h"
#include "simurgh/base/mutex.h"

namespace simurgh {

// Loads a server's rows on its own thread, while a trainer asks for the progress.
//
// Threads: any.
class RowRestorer {
 public:
  // Blocks until the rows are loaded.
  using Load = std::function<Status(const RestoreRowsCall& call, LoadProgress progress)>;

  explicit RowRestorer(Load load) : load_(std::move(load)) {}
  // Ends a load at the next piece.
  ~RowRestorer();

  // The first call starts; equal ones report. Errors: FAILED_PRECONDITION while another load is in
  // progress; of Load.
  StatusOr<SaveProgress> Restore(const RestoreRowsCall& call);

 private:
  void Run(const RestoreRowsCall& call);

  const Load load_;
  std::atomic<bool> stopped_ = false;
  std::atomic<uint64_t> rows_ = 0;
  std::atomic<uint64_t> all_rows_ = 0;
  Mutex mutex_;
  RestoreRowsCall call_ ABSL_GUARDED_BY(mutex_);  // The last one.
  bool done_ ABSL_GUARDED_BY(mutex_) = true;
  Status result_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace simurgh
