#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "retrieval/item_catalog.h"

#include "base/mutex.h"
#include "base/status.h"
#include "config/serving_config.h"
#include "predict/model_version.h"
#include "predict/served_versions.h"
#include "services/serving/recommend_request.h"
#include "services/serving/scoring_backend.h"
#include "telemetry/metrics.h"

namespace simurgh {

// Returns how a configuration searches items.
ItemIndex::Options IndexOptionsOf(const ServingConfig& config);

// Recommends items of files by a model with two towers. Its thread follows the model's versions and
// the files: after a change it computes the vectors of all items and their index, then changes over
// to both at once. Until then the old index answers, with the version that it was made with. Items
// beyond the versions' memory budget are not used. A file
// that cannot be used is logged, and tried again when it or the version changes, or after 10 s.
//
// With a ranking model, a request gets candidates by their vectors, then the ranking model predicts
// the user's row with the columns of each candidate.
//
// Threads: any.
class ItemRecommender final : public Recommender {
 public:
  struct Options {
    std::vector<std::string> files;  // Files of items; empty: the model's data.items.
    std::string id;                  // Column that names items; empty: the model's data.items.id.
    ItemIndex::Options index;        // `ends` is not used.
    std::chrono::milliseconds poll{200};
    size_t max_rank_rows = 4'096;  // Maximum rows of a request to the ranking model.
  };

  // versions: of the model. users: computes vectors of users with them. ranker: null for none.
  // Lifetime: all outlive this.
  ItemRecommender(Options options, ServedVersions& versions, ScoringBackend& users,
                  ScoringBackend* ranker, MetricRegistry& registry);
  ~ItemRecommender() override;
  ItemRecommender(const ItemRecommender&) = delete;
  ItemRecommender& operator=(const ItemRecommender&) = delete;

  std::string Problem() const override;
  bool has_no_items() const override;
  std::shared_ptr<const ServedItems> Current() const override;
  void Recommend(std::shared_ptr<const ServedItems> items, RecommendRequest request,
                 std::chrono::milliseconds max_wait, Done done) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Loaded;
  struct View;
  struct Call;

  void Run();
  void Follow();
  StatusOr<std::shared_ptr<const Loaded>> Load(std::shared_ptr<const ModelVersion> version,
                                               const std::vector<std::string>& files) const;
  // Returns why nothing can be recommended with a version; empty if it is for items.
  std::string NoItems(const ModelVersion& version) const;
  // Finds the items nearest to the users, and answers, or asks the ranking model.
  void Search(std::unique_ptr<Call> call, const ScoredRows& users);
  void Rank(std::unique_ptr<Call> call, std::vector<std::vector<FoundItem>> found);

  const Options options_;
  ServedVersions& versions_;
  ScoringBackend& users_;
  ScoringBackend* const ranker_;
  MetricRegistry& registry_;
  mutable Mutex mutex_;
  CondVar wake_;
  std::shared_ptr<const Loaded> loaded_ ABSL_GUARDED_BY(mutex_);
  mutable std::shared_ptr<const View> view_ ABSL_GUARDED_BY(mutex_);  // The last one.
  std::string problem_ ABSL_GUARDED_BY(mutex_) = "the vectors of the items are being computed";
  std::atomic<bool> ends_ = false;
  // Used by the thread only.
  CatalogSource used_;    // What loaded_ is made of.
  CatalogSource failed_;  // What could not be loaded.
  Clock::time_point retry_;
  std::jthread thread_;
};

}  // namespace simurgh
