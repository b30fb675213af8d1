#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "retrieval/item_catalog.h"

#include "base/status.h"
#include "predict/model_version.h"
#include "services/serving/predict_request.h"

namespace simurgh {

// Users, and which items to recommend to them.
struct RecommendRequest {
  // Maximum of k and of candidates.
  static constexpr uint32_t kMost = ItemQuery::kMost;

  PredictRequest users;
  uint32_t k = 10;
  std::vector<std::string> exclude;  // Items that are not recommended, by id.
  std::vector<CellFilter> filters;   // All must hold.
  // Number of items that a ranking model gets for each user. Nothing: a default.
  std::optional<uint32_t> candidates;
  std::optional<bool> rank;  // Whether a ranking model is used. Nothing: if there is one.
};

// The items for each user, the best first.
struct Recommendations {
  struct OfUser {
    std::vector<std::string_view> ids;
    std::vector<float> scores;
  };

  std::vector<OfUser> users;
  uint64_t step = 0;                  // Step of the version of the model.
  std::optional<uint64_t> rank_step;  // Step of the ranking model's version, if it was used.
  std::shared_ptr<const void> memory = nullptr;  // Keeps the ids.
};

// The items and the versions of models that a request is answered with.
struct ServedItems {
  virtual ~ServedItems() = default;

  RowFormat users;  // Columns of users.
};

// Recommends items to users.
//
// Threads: any.
class Recommender {
 public:
  virtual ~Recommender() = default;

  // Returns why items cannot be recommended, or should not; empty if ready.
  virtual std::string Problem() const = 0;
  // Returns whether the model has no items, so that Problem() is none of the server.
  virtual bool has_no_items() const = 0;
  // Returns the newest items; null: there are none.
  virtual std::shared_ptr<const ServedItems> Current() const = 0;
  // Calls `done` once, on any thread. request: decoded for items->users. max_wait: see
  // Scorer::Submit.
  // Errors: INVALID_ARGUMENT for a filter of an unknown column, for a user whose row is bad, or a
  // value out of range; those of Scorer::Submit; UNAVAILABLE for a ranking model without a version.
  using Done = absl::AnyInvocable<void(StatusOr<Recommendations>) &&>;
  virtual void Recommend(std::shared_ptr<const ServedItems> items, RecommendRequest request,
                         std::chrono::milliseconds max_wait, Done done) = 0;
};

// Decodes {"instances": [{user columns}, ...], "k": 100, "exclude": [ids],
// "filter": {"column": value or list}, "candidates": 1000, "rank": true}. The rows are those of
// DecodeV1(); a bad row fails the request. Errors: those of DecodeV1().
StatusOr<RecommendRequest> DecodeRecommend(const RowFormat& users, const RequestLimits& limits,
                                           std::shared_ptr<RequestMemory> memory);

// Returns {"recommendations": [{"ids": [...], "scores": [...]}, ...], "model_version": "120"}, and
// "rank_model_version" if a ranking model was used.
EncodedBody EncodeRecommend(const Recommendations& recommendations);

}  // namespace simurgh
