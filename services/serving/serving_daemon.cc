#include "services/serving/serving_daemon.h"

#include <algorithm>
#include <filesystem>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/log.h"
#include "services/runtime/http_endpoint.h"
#include "services/runtime/http_server.h"
#include "services/runtime/process.h"
#include "services/serving/http_security.h"
#include "services/serving/predict_api.h"

namespace simurgh {
namespace {

constexpr std::chrono::seconds kDrainTimeout{10};  // Supervisors commonly kill after 30 s.
// Maximum memory of the bodies of all connections together, as a number of largest bodies.
constexpr uint64_t kBodiesAtOnce = 32;
// Bytes of a body per id in its arrays. If all ids were shorter, they would take many times the
// body's memory.
constexpr uint64_t kBytesOfListId = 8;

// The files that SIGHUP reads again.
struct Secrets {
  std::shared_ptr<const BearerTokens> tokens;  // Null: none are needed.
  std::shared_ptr<SSL_CTX> tls;                // Null: plain HTTP.
};

StatusOr<Secrets> LoadSecrets(const ServingConfig& config) {
  Secrets secrets;
  if (!config.token_file.empty()) {
    auto tokens = BearerTokens::Load(config.token_file);
    if (!tokens.ok()) return Annotate(tokens.status(), config.token_key);
    secrets.tokens = *std::move(tokens);
  }
  if (config.security == Security::kTls) {
    auto tls = LoadServerTls(config.tls.certificate, config.tls.key, config.tls.client_authority);
    if (!tls.ok()) {
      // The message begins with the last part of the key.
      return absl::InvalidArgumentError(
          absl::StrCat(config.tls.where, ".", std::string(tls.status().message())));
    }
    secrets.tls = *std::move(tls);
  }
  return secrets;
}

std::string NameOf(const ServingConfig& config) {
  if (!config.name.empty()) return config.name;
  const std::filesystem::path path = std::filesystem::path(config.model).lexically_normal();
  const std::string name = (path.has_filename() ? path : path.parent_path()).filename().string();
  return name.empty() || name == "." || name == ".." ? "model" : name;
}

// Encodes a part of a path of a URL. Source: RFC 3986, 2.1 and 2.3.
std::string UrlText(const std::string& name) {
  constexpr std::string_view kPlain = "-._~";
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || kPlain.find(c) != kPlain.npos) {
      text.push_back(c);
    } else {
      absl::StrAppendFormat(&text, "%%%02X", byte);
    }
  }
  return text;
}

HttpServer::Options ServerOptions(const ServingConfig& config) {
  HttpServer::Options options;
  options.address = config.listen;
  options.key = config.listen_key.empty() ? "serving.listen" : config.listen_key;
  options.only_loopback = config.security == Security::kLoopback;
  options.max_connections = config.max_connections;
  options.max_received_bytes = kBodiesAtOnce * config.max_body_bytes;
  options.request_timeout = config.request_timeout;
  options.limits.body_bytes = config.max_body_bytes;
  return options;
}

// The server. Its members are in the order in which they need each other.
class Serving {
 public:
  explicit Serving(const ServingConfig& config) : config_(config) {}

  Status Start(const ServingParts& parts) {
    SIMURGH_ASSIGN_OR_RETURN(const Secrets secrets, LoadSecrets(config_));
    SIMURGH_ASSIGN_OR_RETURN(backend_, parts.make_backend(config_, registry_));
    const PredictApi::Options options{
        .name = NameOf(config_),
        .limits = {.max_rows = config_.max_rows,
                   .max_list_ids = config_.max_body_bytes / kBytesOfListId,
                   .allows_bad_rows = config_.bad_rows == ServingConfig::BadRows::kEmpty,
                   .ignores_unknown =
                       config_.unknown_columns == ServingConfig::UnknownColumns::kIgnore},
        .max_cell_bytes = kBodiesAtOnce * config_.max_body_bytes,
        .queue_timeout = config_.queue_timeout};
    api_ = std::make_unique<PredictApi>(options, *backend_, registry_);
    api_->SetTokens(secrets.tokens);
    SIMURGH_RETURN_IF_ERROR(StartEndpoint());
    // Requests arrive from now on, so this is the last step.
    SIMURGH_ASSIGN_OR_RETURN(
        server_, HttpServer::Start(ServerOptions(config_), *api_, secrets.tls, registry_));
    return absl::OkStatus();
  }

  std::string url() const {
    return absl::StrCat(config_.security == Security::kTls ? "https://" : "http://",
                        server_->address(), "/v2/models/", UrlText(NameOf(config_)));
  }

  Status Reload(const ServingConfig& config) {
    if (config.security != config_.security) {
      return absl::InvalidArgumentError("serving.security has changed; restart the server");
    }
    SIMURGH_ASSIGN_OR_RETURN(const Secrets secrets, LoadSecrets(config));
    SIMURGH_RETURN_IF_ERROR(backend_->Reload(config));
    api_->SetTokens(secrets.tokens);
    if (secrets.tls != nullptr) server_->SetTls(secrets.tls);
    return absl::OkStatus();
  }

  void Drain() {
    api_->BeginDrain();
    server_->Drain(std::chrono::steady_clock::now() + kDrainTimeout);
    endpoint_.reset();
    api_->EndCalls();  // After the deadline, reads may still complete.
    backend_.reset();  // Answers the remaining requests; the server must still exist.
    server_.reset();
  }

 private:
  Status StartEndpoint() {
    if (config_.metrics.empty()) return absl::OkStatus();
    const auto readiness = [this] {
      const std::string problem = api_->Problem();
      return Readiness{problem.empty(), problem};
    };
    AddProcessMetrics(registry_, "serve", readiness);
    const HttpEndpoint::Options options{.address = config_.metrics,
                                        .key = config_.metrics_key,
                                        .process = "serve",
                                        .is_public = config_.security == Security::kInsecure};
    SIMURGH_ASSIGN_OR_RETURN(endpoint_, HttpEndpoint::Start(options, registry_, readiness));
    return absl::OkStatus();
  }

  const ServingConfig config_;
  MetricRegistry registry_;
  std::unique_ptr<ScoringBackend> backend_;
  std::unique_ptr<PredictApi> api_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<HttpEndpoint> endpoint_;
};

}  // namespace

Status RunServing(const ServingConfig& config, const ServingParts& parts, std::ostream& out) {
  std::stop_source stop;
  ProcessFrame frame(stop, "serving.max_connections", config.max_connections);
  Serving serving(config);
  if (const Status started = serving.Start(parts); !started.ok()) {
    return absl::IsAlreadyExists(started) ? absl::InvalidArgumentError(started.message()) : started;
  }
  frame.SetReload([&]() -> StatusOr<std::string> {
    SIMURGH_ASSIGN_OR_RETURN(const ServingConfig again, parts.reload());
    SIMURGH_RETURN_IF_ERROR(serving.Reload(again));
    return "certificate, tokens and version";
  });
  out << "simurgh: serving at " << serving.url() << std::endl;
  AwaitStop(stop.get_token());
  frame.SetReload(nullptr);
  serving.Drain();
  spdlog::info("exiting: code=0");
  return absl::OkStatus();
}

}  // namespace simurgh
