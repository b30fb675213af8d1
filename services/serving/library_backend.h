#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "services/serving/scoring_backend.h"
#include "simurgh/serve/scorer.h"
#include "simurgh/serve/served_versions.h"

namespace simurgh {

// The versions of a model's folder, and the threads that predict with them.
class LibraryBackend final : public ScoringBackend {
 public:
  // overrides: see ConfigOfModel(). rows: the servers of the rows; null: they are in this process.
  // Lifetime: the registry outlives the backend.
  LibraryBackend(const ServingConfig& config, std::vector<std::string> overrides,
                 std::shared_ptr<RemoteRows> rows, MetricRegistry& registry);

  LoadedVersion Current() override;
  LoadedVersion Find(uint64_t step) override;
  std::vector<uint64_t> Steps() override { return versions_.Steps(); }
  std::string Problem() override { return versions_.Problem(); }
  bool Refuses(std::chrono::milliseconds max_wait) override { return scorer_.Refuses(max_wait); }
  void Score(const LoadedVersion& version, ScoreRequest request, std::chrono::milliseconds max_wait,
             Done done) override;
  void NoteAnswer(const LoadedVersion& version) override { versions_.NoteAnswer(*version.model); }
  Status Reload(const ServingConfig& config) override;

 private:
  // Scores again with the newest version, because a server has no rows of `version` any more.
  void ScoreAgain(const LoadedVersion& version, ScoreRequest request,
                  std::chrono::milliseconds max_wait, Done done);

  const bool is_remote_;
  ServedVersions versions_;
  Scorer scorer_;  // Destroyed first: answers all requests.
};

}  // namespace simurgh
