#include "services/embedding_ps/row_task.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

constexpr size_t kEarlierNames = 64;  // Bounds memory; a call is not delayed by more works.

}  // namespace

RowTask::~RowTask() {
  progress_.stopped = true;
  std::function<void()> join;
  {
    MutexLock lock(mutex_);
    join = std::move(join_);
  }
  if (join) join();
}

StatusOr<SaveProgress> RowTask::StartOrReport(const std::string& name,
                                              absl::FunctionRef<StatusOr<Work>()> begin) {
  MutexLock lock(mutex_);
  if (name != name_) {
    if (!done_) {
      progress_.stopped = true;
      return absl::AbortedError(absl::StrCat(name, ": waiting for the end of '", name_, "'"));
    }
    if (join_) join_();
    SIMURGH_ASSIGN_OR_RETURN(Work work, begin());
    earlier_.push_back(std::exchange(name_, name));
    if (earlier_.size() > kEarlierNames) earlier_.pop_front();
    done_ = false;
    bytes_ = work.bytes;
    evicted_ = work.evicted;
    progress_.rows = progress_.all_rows = 0;
    progress_.stopped = false;
    join_ = start_([this, work = std::move(work)] { Run(work); });
  }
  SaveProgress progress{.done = done_,
                        .rows = progress_.rows,
                        .all_rows = progress_.all_rows,
                        .bytes = bytes_,
                        .files = {},
                        .evicted = evicted_};
  if (!done_) return progress;
  SIMURGH_ASSIGN_OR_RETURN(progress.files, result_);
  return progress;
}

bool RowTask::IsLast(const std::string& name) {
  MutexLock lock(mutex_);
  return name == name_;
}

bool RowTask::IsEarlier(const std::string& name) {
  MutexLock lock(mutex_);
  return name != name_ && std::ranges::find(earlier_, name) != earlier_.end();
}

Status RowTask::Stop() {
  MutexLock lock(mutex_);
  if (done_) return absl::OkStatus();
  progress_.stopped = true;
  return absl::AbortedError(absl::StrCat("waiting for the end of '", name_, "'"));
}

void RowTask::Run(const Work& work) {
  StatusOr<std::vector<ModelFile>> result = work.run(progress_);
  MutexLock lock(mutex_);
  result_ = std::move(result);
  done_ = true;
}

}  // namespace simurgh
