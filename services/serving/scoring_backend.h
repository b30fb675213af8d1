#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"

#include "base/status.h"
#include "config/serving_config.h"
#include "predict/model_version.h"
#include "predict/predictor.h"
#include "predict/program_network.h"
#include "predict/scorer.h"
#include "predict/served_versions.h"
#include "services/serving/recommend_request.h"

namespace simurgh {

// A version that answers requests.
struct LoadedVersion {
  uint64_t step = 0;
  std::shared_ptr<const RowFormat> format;
  std::shared_ptr<const ModelVersion> model;  // Null in tests.
  bool is_named = false;  // The request asks for it, and must not be scored with another one.
};

// The versions and the threads that predict with them, as the protocols use them.
//
// Threads: any.
class ScoringBackend {
 public:
  virtual ~ScoringBackend() = default;

  // Returns the newest version. No format: there is none; Problem() has the reason.
  virtual LoadedVersion Current() = 0;
  // Returns the version of a step. No format: it is not loaded.
  virtual LoadedVersion Find(uint64_t step) = 0;
  virtual std::vector<uint64_t> Steps() = 0;
  // Returns why the model cannot answer, or should not; empty if ready.
  virtual std::string Problem() = 0;

  // See Scorer::Refuses.
  virtual bool Refuses(std::chrono::milliseconds max_wait) = 0;
  // Calls `done` once, on any thread; see Scorer::Submit. ScoredRows::step tells if another version
  // was used. Errors: NOT_FOUND when the version that the request names is gone.
  using Done = absl::AnyInvocable<void(StatusOr<ScoredRows>) &&>;
  virtual void Score(const LoadedVersion& version, ScoreRequest request,
                     std::chrono::milliseconds max_wait, Done done) = 0;

  // Notes that a request for the version was answered.
  virtual void NoteAnswer(const LoadedVersion& /*version*/) {}

  // Returns what recommends items; null: nothing does. Lifetime: that of the backend.
  virtual Recommender* recommender() { return nullptr; }

  // Applies the current configuration after SIGHUP. After an error nothing has changed.
  virtual Status Reload(const ServingConfig& /*config*/) { return absl::OkStatus(); }
};

// The versions of a model's folder, and the threads that predict with them.
class LibraryBackend final : public ScoringBackend {
 public:
  // With serving.rank_model, the backend has a second one, of that model.
  //
  // rows: the servers of the rows; null: they are in this process. program: see
  // ModelVersion::Options. recommends: false for a model that ranks. Lifetime: the registry
  // outlives the backend.
  LibraryBackend(const ServingConfig& config, std::shared_ptr<RemoteRows> rows,
                 std::shared_ptr<ProgramNetwork> program, MetricRegistry& registry,
                 bool recommends = true);
  // Connects to the servers of rows that the configuration names. Errors: those of RowServers.
  static StatusOr<std::unique_ptr<LibraryBackend>> Create(const ServingConfig& config,
                                                          std::shared_ptr<ProgramNetwork> program,
                                                          MetricRegistry& registry);

  const ServedVersions& versions() const { return versions_; }
  LoadedVersion Current() override;
  LoadedVersion Find(uint64_t step) override;
  std::vector<uint64_t> Steps() override { return versions_.Steps(); }
  std::string Problem() override;
  bool Refuses(std::chrono::milliseconds max_wait) override { return scorer_.Refuses(max_wait); }
  void Score(const LoadedVersion& version, ScoreRequest request, std::chrono::milliseconds max_wait,
             Done done) override;
  void NoteAnswer(const LoadedVersion& version) override { versions_.NoteAnswer(*version.model); }
  Recommender* recommender() override { return recommender_.get(); }
  Status Reload(const ServingConfig& config) override;

 private:
  // Scores again with the newest version, because a server has no rows of `version` any more.
  void ScoreAgain(const LoadedVersion& version, ScoreRequest request,
                  std::chrono::milliseconds max_wait, Done done);

  const bool is_remote_;
  ServedVersions versions_;
  // The model that ranks recommended items; null: none. Its metrics are not served: their names are
  // those of this model.
  MetricRegistry rank_registry_;
  std::unique_ptr<LibraryBackend> ranker_;
  std::unique_ptr<Recommender> recommender_;  // Null for a network of a program.
  Scorer scorer_;                             // Destroyed first: answers all requests.
};

}  // namespace simurgh
