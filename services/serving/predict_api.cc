#include "services/serving/predict_api.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "services/serving/predict_request.h"
#include "services/serving/recommend_request.h"

namespace simurgh {
namespace {

const CounterFamily kBadRowsTotal("simurgh_serve_bad_rows_total",
                                  "Rows that had no prediction, or failed their request.");

using Kind = Route::Kind;

constexpr char kPredict[] = "predict";
constexpr char kRecommend[] = "recommend";

// Decodes the %XX of a URL. Returns nothing for a malformed text.
std::optional<std::string> Unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    uint32_t byte = 0;
    if (i + 2 >= text.size() || !absl::SimpleHexAtoi(std::string(text.substr(i + 1, 2)), &byte)) {
      return std::nullopt;
    }
    out.push_back(static_cast<char>(byte));
    i += 2;
  }
  return out;
}

// posts: the kind of a verb of v1; kUnknown: none.
Kind KindOf(bool is_v1, Kind posts, const std::vector<std::string>& rest) {
  if (is_v1 && !rest.empty()) return Kind::kUnknown;
  if (is_v1) return posts == Kind::kUnknown ? Kind::kStatus : posts;
  if (rest.empty()) return Kind::kModel;
  if (rest.size() > 1) return Kind::kUnknown;
  if (rest[0] == "ready") return Kind::kModelReady;
  if (rest[0] == "config") return Kind::kModelConfig;
  return rest[0] == "infer" ? Kind::kInfer : Kind::kUnknown;
}

}  // namespace

const char* Route::name() const {
  switch (kind) {
    case Kind::kInfer:
      return "infer";
    case Kind::kPredict:
      return kPredict;
    case Kind::kRecommend:
      return kRecommend;
    case Kind::kLive:
    case Kind::kReady:
    case Kind::kModelReady:
      return "health";
    case Kind::kServer:
    case Kind::kModel:
    case Kind::kModelConfig:
    case Kind::kStatus:
      return "metadata";
    case Kind::kUnknown:
      break;
  }
  return "other";
}

Route ParseRoute(std::string_view target) {
  Route route;
  target = target.substr(0, target.find('?'));
  if (!target.starts_with('/')) return route;
  target.remove_prefix(1);
  if (target.ends_with('/')) target.remove_suffix(1);
  std::vector<std::string> parts = absl::StrSplit(std::string(target), '/');
  for (std::string& part : parts) {
    std::optional<std::string> unescaped = Unescaped(part);
    if (!unescaped) return route;
    part = *std::move(unescaped);
  }
  const bool is_v1 = parts[0] == "v1";
  if (!is_v1 && parts[0] != "v2") return route;
  if (!is_v1 && parts.size() == 1) route.kind = Kind::kServer;
  if (!is_v1 && parts.size() == 3 && parts[1] == "health") {
    route.kind = parts[2] == "live"    ? Kind::kLive
                 : parts[2] == "ready" ? Kind::kReady
                                       : Kind::kUnknown;
  }
  if (parts.size() < 3 || parts[1] != "models") return route;
  Kind posts = Kind::kUnknown;
  const size_t colon = is_v1 ? parts.back().rfind(':') : std::string::npos;
  if (colon != std::string::npos) {
    route.verb = parts.back().substr(colon + 1);
    posts = route.verb == kPredict     ? Kind::kPredict
            : route.verb == kRecommend ? Kind::kRecommend
                                       : Kind::kUnknown;
    if (posts != Kind::kUnknown) route.verb.clear();
    if (posts != Kind::kUnknown || parts.size() > 3) parts.back().resize(colon);
  }
  if (parts[2].empty()) return route;
  size_t used = 3;
  if (parts.size() > 3 && parts[3] == "versions") {
    uint64_t step = 0;
    if (parts.size() == 4 || !absl::SimpleAtoi(parts[4], &step)) return route;
    route.step = step;
    used = 5;
  }
  route.model = parts[2];
  if (used > 3 && !route.verb.empty()) return route;
  route.kind = KindOf(is_v1, posts, {parts.begin() + static_cast<ptrdiff_t>(used), parts.end()});
  return route;
}

namespace {

using Clock = std::chrono::steady_clock;
using Kind = Route::Kind;

HttpResponse Busy(std::string_view message) {
  HttpResponse response = HttpResponse::Error(503, message);
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

HttpResponse Ended() { return Busy("the server is stopping; use another one"); }

HttpResponse ErrorOf(const Status& status) {
  const std::string message(status.message());
  if (absl::IsInvalidArgument(status)) return HttpResponse::Error(400, message);
  if (absl::IsOutOfRange(status)) return HttpResponse::Error(413, message);
  if (absl::IsNotFound(status)) return HttpResponse::Error(404, message);
  // A retry helps only against errors that pass.
  const bool passes = absl::IsResourceExhausted(status) || absl::IsDeadlineExceeded(status) ||
                      absl::IsUnavailable(status) || absl::IsCancelled(status);
  return passes ? Busy(message) : HttpResponse::Error(500, message);
}

// Returns the value of Inference-Header-Content-Length.
StatusOr<std::optional<size_t>> JsonBytes(const HttpHead& head) {
  if (head.inference_header_length.empty()) return std::nullopt;
  size_t bytes = 0;
  if (absl::SimpleAtoi(head.inference_header_length, &bytes)) return bytes;
  return absl::InvalidArgumentError(
      absl::StrCat("Inference-Header-Content-Length: ", Shown(head.inference_header_length),
                   " is not a number of bytes"));
}

std::string StatusJson(const std::vector<uint64_t>& steps) {
  const auto append = [](std::string* out, uint64_t step) {
    absl::StrAppend(out, "{\"version\":\"", step,
                    "\",\"state\":\"AVAILABLE\",\"status\":{\"error_code\":\"OK\","
                    "\"error_message\":\"\"}}");
  };
  return absl::StrCat("{\"model_version_status\":[", absl::StrJoin(steps, ",", append), "]}");
}

// The memory of a request's cells, counted in the sum of all requests.
class HeldCells {
 public:
  explicit HeldCells(std::atomic<uint64_t>& sum) : sum_(sum) {}
  HeldCells(const HeldCells&) = delete;
  HeldCells& operator=(const HeldCells&) = delete;
  ~HeldCells() { sum_ -= bytes_; }

  // Returns false if the sum is more than `limit`. A single request is always admitted.
  bool Hold(uint64_t bytes, uint64_t limit) {
    bytes_ = bytes;
    const uint64_t others = sum_.fetch_add(bytes);
    return others == 0 || others + bytes <= limit;
  }

 private:
  std::atomic<uint64_t>& sum_;
  uint64_t bytes_ = 0;
};

}  // namespace

// A request that is being scored.
struct PredictApi::Pending {
  explicit Pending(std::atomic<uint64_t>& cell_bytes) : cells(cell_bytes) {}

  Kind kind = Kind::kInfer;
  LoadedVersion version;
  PredictRequest request;
  HeldCells cells;
  Clock::time_point submitted;
};

PredictApi::PredictApi(const Options& options, ScoringBackend& backend, MetricRegistry& registry)
    : options_(options),
      backend_(backend),
      decode_seconds_(StageSeconds(registry, "decode")),
      score_seconds_(StageSeconds(registry, "score")),
      encode_seconds_(StageSeconds(registry, "encode")),
      bad_rows_(registry.Get(kBadRowsTotal)) {}

void PredictApi::EndCalls() {
  MutexLock lock(calls_);
  has_ended_ = true;
}

void PredictApi::SetTokens(std::shared_ptr<const BearerTokens> tokens) {
  MutexLock lock(mutex_);
  tokens_ = std::move(tokens);
}

std::string PredictApi::Problem() { return draining_ ? "stopping" : backend_.Problem(); }

std::variant<HttpHandler::Answer, HttpResponse> PredictApi::Accept(const HttpHead& head) {
  Route route = ParseRoute(head.target);
  MutexLock lock(calls_);
  if (std::optional<HttpResponse> response = Refuse(head, route)) {
    response->route = route.name();
    return *std::move(response);
  }
  return [this, route = std::move(route)](HttpRequest request, Respond respond) {
    Handle(route, std::move(request), std::move(respond));
  };
}

std::string PredictApi::PathProblem(const Route& route) const {
  const bool has_verb = route.step
                            ? route.kind == Kind::kUnknown && !route.verb.empty()
                            : route.kind == Kind::kStatus && route.model != options_.name &&
                                  route.model == absl::StrCat(options_.name, ":", route.verb);
  if (has_verb) {
    return absl::StrCat("unknown verb ", Shown(absl::StrCat(":", route.verb)),
                        "; use POST with /v1/models/", options_.name, ":", kPredict);
  }
  if (route.kind == Kind::kRecommend && route.step) {
    return absl::StrCat("items are recommended with the newest version only; use /v1/models/",
                        options_.name, ":", kRecommend);
  }
  if (route.kind != Kind::kUnknown) return "";
  return absl::StrCat("no such path; use /v2/models/", options_.name, "/infer or /v1/models/",
                      options_.name, ":", kPredict);
}

std::optional<HttpResponse> PredictApi::Refuse(const HttpHead& head, const Route& route) {
  if (has_ended_) return Ended();
  // Load balancers have no token.
  if (route.kind != Kind::kLive && route.kind != Kind::kReady) {
    std::shared_ptr<const BearerTokens> tokens;
    {
      MutexLock lock(mutex_);
      tokens = tokens_;
    }
    if (tokens != nullptr && !tokens->Allow(head.authorization)) {
      HttpResponse response = HttpResponse::Error(
          401, head.authorization.empty()
                   ? "no token; send the header Authorization: Bearer TOKEN"
                   : "wrong token; send Authorization: Bearer TOKEN with one of "
                     "serving.token_file");
      response.headers.emplace_back("WWW-Authenticate", "Bearer");
      return response;
    }
  }
  if (const std::string problem = PathProblem(route); !problem.empty()) {
    return HttpResponse::Error(404, problem);
  }
  const bool gets = head.method == "GET" || head.method == "HEAD";
  if (route.posts() ? head.method != "POST" : !gets) {
    HttpResponse response = HttpResponse::Error(
        405, route.posts() ? "use POST for this path" : "use GET for this path");
    response.headers.emplace_back("Allow", route.posts() ? "POST" : "GET, HEAD");
    return response;
  }
  if (!head.content_encoding.empty()) {
    return HttpResponse::Error(
        415, absl::StrCat("Content-Encoding ", Shown(head.content_encoding),
                          " is not supported; use gzip, or send the body as it is"));
  }
  if (route.model.empty()) return std::nullopt;
  if (route.model != options_.name) {
    return HttpResponse::Error(
        404, absl::StrCat("no model ", Shown(route.model), "; this server has ", options_.name));
  }
  if (route.posts() && draining_) return Ended();
  if (route.kind == Kind::kRecommend) {
    Recommender* const recommender = backend_.recommender();
    if (recommender == nullptr || recommender->has_no_items()) {
      return HttpResponse::Error(
          404, absl::StrCat("no items to recommend: ", recommender == nullptr
                                                           ? "this server only predicts"
                                                           : recommender->Problem()));
    }
    if (recommender->Current() == nullptr) return Busy(recommender->Problem());
    return std::nullopt;
  }
  if (VersionOf(route).format == nullptr) return NoVersion(route);
  return std::nullopt;
}

LoadedVersion PredictApi::VersionOf(const Route& route) {
  return route.step ? backend_.Find(*route.step) : backend_.Current();
}

HttpResponse PredictApi::NoVersion(const Route& route) {
  if (!route.step) return Busy(absl::StrCat("no version of the model: ", backend_.Problem()));
  const std::vector<uint64_t> steps = backend_.Steps();
  return HttpResponse::Error(
      404, absl::StrCat("version ", *route.step, " is not loaded; ",
                        steps.empty() ? "none is" : "use one of ", absl::StrJoin(steps, ", ")));
}

void PredictApi::Handle(const Route& route, HttpRequest request, Respond respond) {
  MutexLock lock(calls_);
  if (has_ended_) return std::move(respond)(Ended());
  if (route.kind == Kind::kRecommend) return Recommend(std::move(request), std::move(respond));
  if (route.posts()) return Predict(route, std::move(request), std::move(respond));
  HttpResponse response = Describe(route);
  response.route = route.name();
  std::move(respond)(std::move(response));
}

HttpResponse PredictApi::Describe(const Route& route) {
  HttpResponse response;
  LoadedVersion version;
  if (!route.model.empty()) {
    version = VersionOf(route);
    if (version.format == nullptr) return NoVersion(route);
  }
  switch (route.kind) {
    case Kind::kServer:
      response.body = ServerMetadata();
      break;
    case Kind::kLive:
      response.body = "{\"live\":true}";
      break;
    case Kind::kReady:
    case Kind::kModelReady: {
      // An older version stays ready when the newest one is too old.
      const std::string problem = route.step && !draining_ ? "" : Problem();
      if (!problem.empty()) return Busy(absl::StrCat("not ready: ", problem));
      response.body = "{\"ready\":true}";
      break;
    }
    case Kind::kModel:
      response.body = ModelMetadata(*version.format, options_.name, backend_.Steps());
      break;
    case Kind::kModelConfig:
      response.body = ModelConfigJson(*version.format, options_.name, options_.limits.max_rows);
      break;
    case Kind::kStatus:
      response.body = StatusJson(route.step ? std::vector{*route.step} : backend_.Steps());
      break;
    case Kind::kInfer:
    case Kind::kPredict:
    case Kind::kRecommend:
    case Kind::kUnknown:
      break;
  }
  return response;
}

void PredictApi::Predict(const Route& route, HttpRequest request, Respond respond) {
  const Clock::time_point begin = Clock::now();
  const char* const name = route.name();
  const auto refuse = [&](HttpResponse response) {
    response.route = name;
    std::move(respond)(std::move(response));
  };
  auto pending = std::make_unique<Pending>(cell_bytes_);
  pending->kind = route.kind;
  pending->version = VersionOf(route);
  if (pending->version.format == nullptr) return refuse(NoVersion(route));
  if (backend_.Refuses(options_.queue_timeout)) {  // Saves the work of decoding.
    return refuse(Busy("too many requests wait; try again later"));
  }
  const StatusOr<std::optional<size_t>> json_bytes = JsonBytes(request.head);
  if (!json_bytes.ok()) return refuse(ErrorOf(json_bytes.status()));
  const RowFormat& format = *pending->version.format;
  auto memory = std::make_shared<RequestMemory>(std::move(request.body));
  StatusOr<PredictRequest> decoded =
      route.kind == Kind::kInfer ? DecodeV2(format, options_.limits, *json_bytes, std::move(memory))
                                 : DecodeV1(format, options_.limits, std::move(memory));
  if (!decoded.ok()) return refuse(ErrorOf(decoded.status()));
  if (!pending->cells.Hold(decoded->cell_bytes, options_.max_cell_bytes)) {
    return refuse(Busy("the server holds too many cells of requests; try again"));
  }
  pending->request = *std::move(decoded);
  pending->submitted = Clock::now();
  decode_seconds_.Observe(pending->submitted - begin);
  // The wait is never 0, which no request can keep.
  const auto max_wait = std::min(
      options_.queue_timeout,
      std::chrono::ceil<std::chrono::milliseconds>(
          pending->request.timeout.value_or(std::chrono::microseconds(options_.queue_timeout))));
  ScoreRequest rows = std::move(pending->request.rows);
  pending->request.rows.rows = rows.rows;  // The response needs the number.
  const LoadedVersion version = pending->version;
  backend_.Score(version, std::move(rows), max_wait,
                 [this, name, pending = std::move(pending),
                  respond = std::move(respond)](StatusOr<ScoredRows> scored) mutable {
                   HttpResponse response = Answer(*pending, std::move(scored));
                   response.route = name;
                   std::move(respond)(std::move(response));
                 });
}

HttpResponse PredictApi::Answer(const Pending& pending, StatusOr<ScoredRows> scored) {
  const Clock::time_point begin = Clock::now();
  score_seconds_.Observe(begin - pending.submitted);
  if (!scored.ok()) return ErrorOf(scored.status());
  backend_.NoteAnswer(pending.version);
  const PredictRequest& request = pending.request;
  const size_t labels = pending.version.format->labels.size();
  bad_rows_.Add(request.bad.rows.size() + scored->bad_rows);
  if (scored->bad_rows > 0 && !options_.limits.allows_bad_rows) {
    Problems problems;
    for (const RowProblem& problem : scored->problems) {
      problems.Add(absl::StrCat("row ", problem.row, ": ", problem.message));
    }
    problems.AddMore(scored->bad_rows - scored->problems.size());
    return HttpResponse::Error(400, problems.Text());
  }
  for (const size_t row : request.bad.rows) {
    std::fill_n(scored->probabilities.begin() + static_cast<ptrdiff_t>(row * labels), labels,
                std::numeric_limits<float>::quiet_NaN());
  }
  const ModelName model{options_.name, scored->step.value_or(pending.version.step)};
  EncodedBody body = pending.kind == Kind::kInfer
                         ? EncodeV2(*pending.version.format, model, request, *scored)
                         : EncodeV1(*pending.version.format, model, request.is_columnar, *scored);
  HttpResponse response;
  response.content_type = std::move(body.content_type);
  if (body.json_bytes) {
    response.headers.emplace_back("Inference-Header-Content-Length",
                                  absl::StrCat(*body.json_bytes));
  }
  response.body = std::move(body.bytes);
  encode_seconds_.Observe(Clock::now() - begin);
  return response;
}

void PredictApi::Recommend(HttpRequest request, Respond respond) {
  const Clock::time_point begin = Clock::now();
  auto refuse = [&](HttpResponse response) {
    response.route = kRecommend;
    std::move(respond)(std::move(response));
  };
  Recommender& recommender = *backend_.recommender();
  const std::shared_ptr<const ServedItems> items = recommender.Current();
  if (items == nullptr) return refuse(Busy(recommender.Problem()));
  if (backend_.Refuses(options_.queue_timeout)) {  // Saves the work of decoding.
    return refuse(Busy("too many requests wait; try again later"));
  }
  StatusOr<RecommendRequest> decoded = DecodeRecommend(
      items->users, options_.limits, std::make_shared<RequestMemory>(std::move(request.body)));
  if (!decoded.ok()) return refuse(ErrorOf(decoded.status()));
  auto cells = std::make_unique<HeldCells>(cell_bytes_);
  if (!cells->Hold(decoded->users.cell_bytes, options_.max_cell_bytes)) {
    return refuse(Busy("the server holds too many cells of requests; try again"));
  }
  const Clock::time_point submitted = Clock::now();
  decode_seconds_.Observe(submitted - begin);
  recommender.Recommend(items, *std::move(decoded), options_.queue_timeout,
                        [this, submitted, cells = std::move(cells),
                         respond = std::move(respond)](StatusOr<Recommendations> found) mutable {
                          const Clock::time_point scored = Clock::now();
                          score_seconds_.Observe(scored - submitted);
                          HttpResponse response;
                          if (found.ok()) {
                            response.body = EncodeRecommend(*found).bytes;
                            encode_seconds_.Observe(Clock::now() - scored);
                          } else {
                            response = ErrorOf(found.status());
                          }
                          response.route = kRecommend;
                          std::move(respond)(std::move(response));
                        });
}

}  // namespace simurgh
