#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "predict/remote_rows.h"
#include "predict/served_versions.h"

namespace simurgh::testing {

// A process with a share of the rows.
struct ShareServer {
  ShareServer(const std::string& model, RowShare share, const std::string& version = "latest",
              std::chrono::milliseconds expiry = std::chrono::seconds(10))
      : users(expiry),
        versions({.model = model,
                  .version = version,
                  .poll = std::chrono::milliseconds(1),
                  .loading = {.share = share},
                  .users = &users},
                 registry) {}

  MetricRegistry registry;
  VersionUsers users;
  ServedVersions versions;
};

// Servers in this process, asked by calls.
class ShareServers : public RemoteRows {
 public:
  ShareServers(const std::string& model, uint32_t count, std::chrono::milliseconds expiry) {
    for (uint32_t i = 0; i < count; ++i) {
      all.push_back(std::make_unique<ShareServer>(model, RowShare(i, count), "latest", expiry));
    }
  }

  uint32_t servers() const override { return static_cast<uint32_t>(all.size()); }
  StatusOr<std::vector<VersionName>> Use(std::span<const VersionName> used) override {
    std::map<uint64_t, std::pair<VersionName, size_t>> counts;
    for (size_t i = 0; i < all.size(); ++i) {
      if (down == i) return absl::UnavailableError(absl::StrCat("server ", i, " is gone"));
      all[i]->users.Note(7, used, VersionUsers::Clock::now());
      for (const auto& version : all[i]->versions.Loaded()) {
        auto& [name, count] = counts[version->checksum()];
        name = version->name();
        ++count;
      }
    }
    std::vector<VersionName> common;
    for (const auto& [checksum, one] : counts) {
      if (one.second == all.size()) common.push_back(one.first);
    }
    return common;
  }
  std::string WhoLacks(const VersionName& version) override {
    return absl::StrCat("a server lacks step ", version.step);
  }
  Status Read(uint64_t checksum, std::span<const RowRead> reads,
              std::span<RowAnswer> answers) override {
    for (size_t i = 0; i < all.size(); ++i) {
      if (reads[i].ids.empty()) continue;
      if (down == i) return absl::UnavailableError(absl::StrCat("server ", i, " is gone"));
      const auto version = all[i]->versions.FindChecksum(checksum);
      if (version == nullptr || gone == checksum) return absl::NotFoundError("gone");
      const auto allocate = [](size_t bytes) -> RowMemory {
        const auto memory = std::make_shared<std::vector<std::byte>>(bytes);
        return {*memory, memory};
      };
      SIMURGH_ASSIGN_OR_RETURN(answers[i], AnswerRead(*version, reads[i].precision, reads[i].groups,
                                                      reads[i].ids, allocate));
    }
    return absl::OkStatus();
  }
  void OnCache(uint64_t hits, uint64_t /*misses*/) override { cache_hits += hits; }

  std::vector<std::unique_ptr<ShareServer>> all;
  std::atomic<uint64_t> gone = 0;       // Checksum of a version that reads do not find.
  std::atomic<size_t> down = SIZE_MAX;  // Index of one that does not answer.
  std::atomic<uint64_t> cache_hits = 0;
};

}  // namespace simurgh::testing
