#include "simurgh/serve/version_users.h"

#include <algorithm>
#include <functional>

namespace simurgh {

void VersionUsers::Note(uint64_t user, std::span<const VersionName> versions,
                        Clock::time_point now) {
  MutexLock lock(mutex_);
  std::erase_if(users_, [&](const auto& one) { return one.second.seen + expiry_ < now; });
  if (users_.size() >= kMaxUsers && !users_.contains(user)) {
    users_.erase(
        std::ranges::min_element(users_, {}, [](const auto& one) { return one.second.seen; }));
  }
  users_[user] = {{versions.begin(), versions.end()}, now};
}

bool VersionUsers::IsUsed(uint64_t checksum, Clock::time_point now) const {
  const std::vector<VersionName> used = Used(now);
  return std::ranges::find(used, checksum, &VersionName::checksum) != used.end();
}

std::vector<VersionName> VersionUsers::Used(Clock::time_point now) const {
  std::vector<VersionName> used;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, user] : users_) {
      if (user.seen + expiry_ < now) continue;
      used.insert(used.end(), user.versions.begin(), user.versions.end());
    }
  }
  std::ranges::sort(used, std::greater(), &VersionName::step);
  return used;
}

}  // namespace simurgh
