#include "services/embedding_ps/run_guard.h"

#include <iterator>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

constexpr size_t kMaxTrainings = 1'024;  // Most trainings that a server remembers.

}  // namespace

Status RunGuard::AdmitStart(uint64_t run, Request request) {
  if (GenerationOf(run) == 0) return absl::OkStatus();
  Start& newest = newest_[TrainingOf(run)];
  if (IsSuperseded(run, newest.run)) return SupersededError(newest.run);
  if (run != newest.run) newest = {.run = run};
  const bool needs_rows = request != Request::kProbe && request != Request::kBegin;
  if (needs_rows && !newest.has_begun) {
    return absl::DataLossError(
        absl::StrCat("this server was restarted and has lost the rows of run ",
                     absl::Hex(run, absl::kZeroPad16), "; start the nn-workers again"));
  }
  if (newest_.size() > kMaxTrainings) {
    const bool is_first = newest_.begin()->first == TrainingOf(run);
    newest_.erase(is_first ? std::next(newest_.begin()) : newest_.begin());
  }
  return absl::OkStatus();
}

void RunGuard::Begin(uint64_t run) {
  const auto found = newest_.find(TrainingOf(run));
  if (found != newest_.end() && found->second.run == run) found->second.has_begun = true;
}

Status RunGuard::Admit(uint64_t run, Request request, Clock::time_point now) {
  SIMURGH_RETURN_IF_ERROR(AdmitStart(run, request));
  if (allows_all_) return absl::OkStatus();
  if (request == Request::kProbe || request == Request::kEvaluate) {
    if (active_ && run_ == run) seen_ = now;
    return absl::OkStatus();
  }
  if (run == replaced_run_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "run ", absl::Hex(run, absl::kZeroPad16), " sent nothing for ", timeout_.count(),
        " ms, and another run changed its rows; train again, with a larger "
        "embedding_ps.run_timeout"));
  }
  if (active_ && IsSuperseded(run_, run)) active_ = false;
  if (active_ && run_ != run) {
    const auto idle = std::chrono::duration_cast<std::chrono::milliseconds>(now - seen_);
    if (idle < timeout_ && (pushed_ || run > run_)) {
      return absl::AbortedError(absl::StrCat(
          "run ", absl::Hex(run_, absl::kZeroPad16), " trains here, last request ", idle.count(),
          " ms ago; waiting for its end, or for embedding_ps.run_timeout without a request; to "
          "train both at once, set embedding_ps.concurrent_runs: allow"));
    }
    if (pushed_) replaced_run_ = run_;
    active_ = false;
  }
  if (!active_) {
    if (run == ended_run_) return absl::OkStatus();  // A request that overlapped its end.
    active_ = true;
    run_ = run;
    pushed_ = false;
    ended_ranks_.clear();
  }
  pushed_ = pushed_ || request == Request::kPush;
  seen_ = now;
  return absl::OkStatus();
}

void RunGuard::End(const StepId& step_id) {
  if (!active_ || run_ != step_id.run) return;
  ended_ranks_.insert(step_id.rank);
  if (ended_ranks_.size() < step_id.ranks) return;
  active_ = false;
  ended_run_ = run_;
}

}  // namespace simurgh
