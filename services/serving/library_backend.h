#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/serving/scoring_backend.h"
#include "simurgh/serve/scorer.h"
#include "simurgh/serve/served_versions.h"

namespace simurgh {

// The versions of a model directory, and the threads of the library that predict with them.
class LibraryBackend final : public ScoringBackend {
 public:
  LibraryBackend(std::unique_ptr<ServedVersions> versions, const Scorer::Options& options)
      : versions_(std::move(versions)), scorer_(options) {}

  LoadedVersion Current() override { return Loaded(versions_->Current()); }
  LoadedVersion Find(uint64_t step) override { return Loaded(versions_->Find(step)); }
  std::vector<uint64_t> Steps() override { return versions_->Steps(); }
  std::string Problem() override { return versions_->Problem(); }
  void Score(const LoadedVersion& version, ScoreRequest request, std::chrono::milliseconds max_wait,
             Done done) override {
    scorer_.Submit(version.model, std::move(request), max_wait, std::move(done));
  }

 private:
  static LoadedVersion Loaded(std::shared_ptr<const ModelVersion> model) {
    if (model == nullptr) return {};
    LoadedVersion version;
    version.step = model->step();
    version.format = std::shared_ptr<const RowFormat>(model, &model->format());
    version.model = std::move(model);
    return version;
  }

  const std::unique_ptr<ServedVersions> versions_;
  Scorer scorer_;  // Destroyed first: answers all requests.
};

}  // namespace simurgh
