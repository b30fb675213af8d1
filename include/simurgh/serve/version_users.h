#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/mutex.h"
#include "simurgh/serve/remote_rows.h"

namespace simurgh {

// The versions that other processes use, by what they have told lately.
//
// Threads: any.
class VersionUsers {
 public:
  using Clock = std::chrono::steady_clock;
  // expiry: time without a word after which a process counts as gone.
  explicit VersionUsers(std::chrono::milliseconds expiry = std::chrono::seconds(10))
      : expiry_(expiry) {}

  std::chrono::milliseconds expiry() const { return expiry_; }
  // A process uses these versions, or is about to, and no others. user: a random number.
  void Note(uint64_t user, std::span<const VersionName> versions, Clock::time_point now);
  bool IsUsed(uint64_t checksum, Clock::time_point now) const;
  // All versions that are used, the newest first.
  std::vector<VersionName> Used(Clock::time_point now) const;

 private:
  struct User {
    std::vector<VersionName> versions;
    Clock::time_point seen;
  };
  static constexpr size_t kMaxUsers = 10'000;  // The one that was silent longest is forgotten.

  const std::chrono::milliseconds expiry_;
  mutable Mutex mutex_;
  std::map<uint64_t, User> users_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace simurgh
