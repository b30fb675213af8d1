#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/mutex.h"
#include "services/runtime/http_server.h"
#include "services/serving/http_security.h"
#include "services/serving/predict_request.h"
#include "services/serving/scoring_backend.h"
#include "telemetry/metrics.h"

namespace simurgh {

// The model, the version and the operation that a request's path names.
struct Route {
  enum class Kind {
    kUnknown,
    kServer,       // /v2
    kLive,         // /v2/health/live
    kReady,        // /v2/health/ready
    kModel,        // /v2/models/NAME[/versions/N]
    kModelReady,   // ... /ready
    kModelConfig,  // ... /config
    kInfer,        // ... /infer
    kStatus,       // /v1/models/NAME[/versions/N]
    kPredict,      // ... :predict
    kRecommend,    // ... :recommend
  };

  Kind kind = Kind::kUnknown;
  std::string model;
  std::optional<uint64_t> step;

  // The text after the last colon of a path of v1, unless it is a known verb. It may be a part of
  // the model's name; with a step, the kind is unknown.
  std::string verb;

  bool posts() const {
    return kind == Kind::kInfer || kind == Kind::kPredict || kind == Kind::kRecommend;
  }
  // Returns the label of metrics.
  const char* name() const;
};

// target: with or without a query.
Route ParseRoute(std::string_view target);

// Answers requests of the protocols v1 and v2 with a backend.
//
// Threads: any. Lifetime: the registry outlives it, and the backend outlives EndCalls(). It
// outlives all calls of Score() of the backend.
class PredictApi final : public HttpHandler {
 public:
  struct Options {
    std::string name;
    RequestLimits limits;
    // Maximum memory of the cells of all requests that are being scored. A request beyond that gets
    // 503.
    uint64_t max_cell_bytes = uint64_t{256} << 20;
    std::chrono::milliseconds queue_timeout{100};
  };

  PredictApi(const Options& options, ScoringBackend& backend, MetricRegistry& registry);

  // Sets the tokens of later requests. Null: requests need no token.
  void SetTokens(std::shared_ptr<const BearerTokens> tokens);
  // Makes the server not ready and refuse requests for predictions from now on.
  void BeginDrain() { draining_ = true; }
  // Waits for running calls of the backend. Later requests are answered without the backend, which
  // may then be destroyed.
  void EndCalls();
  // Returns why the server is not ready, or an empty text.
  std::string Problem();

  std::variant<Answer, HttpResponse> Accept(const HttpHead& head) override;

 private:
  struct Pending;

  std::optional<HttpResponse> Refuse(const HttpHead& head, const Route& route)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(calls_);
  // Returns why the path has no meaning, or an empty text.
  std::string PathProblem(const Route& route) const;
  void Handle(const Route& route, HttpRequest request, Respond respond);
  HttpResponse Describe(const Route& route);
  LoadedVersion VersionOf(const Route& route);
  HttpResponse NoVersion(const Route& route);
  void Predict(const Route& route, HttpRequest request, Respond respond);
  HttpResponse Answer(const Pending& pending, StatusOr<ScoredRows> scored);
  void Recommend(HttpRequest request, Respond respond);

  const Options options_;
  ScoringBackend& backend_;
  Histogram& decode_seconds_;
  Histogram& score_seconds_;
  Histogram& encode_seconds_;
  Counter& bad_rows_;
  std::atomic<bool> draining_ = false;
  std::atomic<uint64_t> cell_bytes_ = 0;
  Mutex calls_;  // Held while the backend is called.
  bool has_ended_ ABSL_GUARDED_BY(calls_) = false;
  Mutex mutex_;
  std::shared_ptr<const BearerTokens> tokens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace simurgh
