#include "train/retry.h"

#include <algorithm>

namespace simurgh {
namespace {

constexpr std::chrono::milliseconds kFirstPause{20};
constexpr std::chrono::milliseconds kLongestPause{2'000};
constexpr int kDoublings = 7;  // 20 ms * 2^7 is past the longest pause.

}  // namespace

bool IsWorthARetry(const Status& status) {
  switch (status.code()) {
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

std::chrono::milliseconds RetryClock::OnFailure(Clock::time_point now,
                                                std::chrono::milliseconds deadline) {
  if (failures_ == 0) first_failure_ = now;
  const auto pause = std::min(kFirstPause * (1 << std::min(failures_, kDoublings)), kLongestPause);
  ++failures_;
  next_attempt_ = now + pause;
  return std::chrono::duration_cast<std::chrono::milliseconds>(first_failure_ + deadline - now);
}

void RetryClock::Reset() { failures_ = 0; }

}  // namespace simurgh
