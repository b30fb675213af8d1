#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "services/serving/scoring_backend.h"
#include "simurgh/serve/scorer.h"
#include "simurgh/serve/served_versions.h"

namespace simurgh {

// The versions of a model's folder, and the threads that predict with them.
class LibraryBackend final : public ScoringBackend {
 public:
  // overrides: see ConfigOfModel(). Lifetime: the registry outlives the backend.
  LibraryBackend(const ServingConfig& config, std::vector<std::string> overrides,
                 MetricRegistry& registry)
      : versions_(
            {.model = config.model,
             .version = VersionOf(config),
             .poll = config.poll,
             .max_age = config.max_age,
             .memory_budget = config.memory_budget,
             .loading = {.overrides = std::move(overrides), .allow_plugins = config.allow_plugins}},
            registry),
        scorer_({.threads = ThreadsOf(config),
                 .max_batch_rows = config.max_batch_rows,
                 .batch_delay = config.batch_delay},
                registry) {}

  LoadedVersion Current() override { return Loaded(versions_.Current()); }
  LoadedVersion Find(uint64_t step) override { return Loaded(versions_.Find(step)); }
  std::vector<uint64_t> Steps() override { return versions_.Steps(); }
  std::string Problem() override { return versions_.Problem(); }
  bool Refuses(std::chrono::milliseconds max_wait) override { return scorer_.Refuses(max_wait); }
  void Score(const LoadedVersion& version, ScoreRequest request, std::chrono::milliseconds max_wait,
             Done done) override {
    scorer_.Submit(version.model, std::move(request), max_wait, std::move(done));
  }
  void NoteAnswer(const LoadedVersion& version) override { versions_.NoteAnswer(*version.model); }
  Status Reload(const ServingConfig& config) override {
    versions_.Reload(VersionOf(config));
    return absl::OkStatus();
  }

 private:
  static std::string VersionOf(const ServingConfig& config) {
    return config.version ? absl::StrCat(*config.version) : "latest";
  }
  static uint32_t ThreadsOf(const ServingConfig& config) {
    return config.threads > 0 ? config.threads : std::max(1U, std::thread::hardware_concurrency());
  }
  static LoadedVersion Loaded(std::shared_ptr<const ModelVersion> model) {
    if (model == nullptr) return {};
    LoadedVersion version;
    version.step = model->step();
    version.format = std::shared_ptr<const RowFormat>(model, &model->format());
    version.model = std::move(model);
    return version;
  }

  ServedVersions versions_;
  Scorer scorer_;  // Destroyed first: answers all requests.
};

}  // namespace simurgh
