#include "train/retry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/log.h"

namespace simurgh {
namespace {

constexpr std::chrono::milliseconds kFirstPause{20};
constexpr std::chrono::milliseconds kLongestPause{2'000};
constexpr int kDoublings = 7;  // 20 ms * 2^7 is past the longest pause.

bool IsTransient(const Status& error) {
  switch (error.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kNotFound:
      return true;
    default:
      return false;
  }
}

}  // namespace

Status RetryClock::OnFailure(const Status& error, Clock::time_point now,
                             std::chrono::milliseconds deadline, bool is_endless) {
  if (!IsTransient(error)) return error;
  if (is_endless && now - first_failure_ >= deadline) failures_ = 0;
  if (failures_ == 0) first_failure_ = now;
  next_attempt_ =
      now + std::min(kFirstPause * (1 << std::min(failures_++, kDoublings)), kLongestPause);
  const std::chrono::duration<double> left = first_failure_ + deadline - now;
  if (left.count() <= 0) {
    return Annotate(error, absl::StrCat("retried for ", deadline.count() / 1000,
                                        " s (training.retry_deadline)"));
  }
  spdlog::warn("{}; retrying for another {:.1f} s", std::string(error.message()), left.count());
  return absl::OkStatus();
}

}  // namespace simurgh
