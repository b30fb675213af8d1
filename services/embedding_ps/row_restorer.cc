#include "services/embedding_ps/row_restorer.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "simurgh/base/log.h"

namespace simurgh {

RowRestorer::~RowRestorer() {
  stopped_ = true;
  std::thread thread;
  {
    MutexLock lock(mutex_);
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

StatusOr<SaveProgress> RowRestorer::Restore(const RestoreRowsCall& call) {
  MutexLock lock(mutex_);
  if (!thread_.joinable() || call != call_) {
    if (!done_) {
      return absl::FailedPreconditionError(
          absl::StrCat("restore rows: ", call_.model, " is being loaded; restart this server"));
    }
    if (thread_.joinable()) thread_.join();
    call_ = call;
    done_ = false;
    rows_ = all_rows_ = 0;
    thread_ = std::thread([this, call] { Run(call); });
  }
  if (done_) SIMURGH_RETURN_IF_ERROR(result_);
  return SaveProgress{.done = done_, .rows = rows_, .all_rows = all_rows_};
}

void RowRestorer::Run(const RestoreRowsCall& call) {
  Status result = load_(call, [this](uint64_t rows, uint64_t all_rows) -> Status {
    rows_ = rows;
    all_rows_ = all_rows;
    return stopped_ ? absl::CancelledError("restore rows: the server stops") : absl::OkStatus();
  });
  if (result.ok()) {
    spdlog::info("loaded rows: model={} step={} rows_read={}", call.model, call.step, rows_.load());
  } else {
    spdlog::error("rows are not loaded: {}", std::string(result.message()));
  }
  MutexLock lock(mutex_);
  result_ = std::move(result);
  done_ = true;
}

}  // namespace simurgh
