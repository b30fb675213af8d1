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

}  // namespace

// Its members are in the order in which they need each other.
struct StartedServing::State {
  explicit State(const ServingConfig& configuration) : config(configuration) {}

  Status Start(const MakeBackend& make_backend) {
    SIMURGH_ASSIGN_OR_RETURN(const Secrets secrets, LoadSecrets(config));
    SIMURGH_ASSIGN_OR_RETURN(backend, make_backend(config, registry));
    const PredictApi::Options options{
        .name = NameOf(config),
        .limits = {.max_rows = config.max_rows,
                   .max_list_ids = config.max_body_bytes / kBytesOfListId,
                   .allows_bad_rows = config.bad_rows == ServingConfig::BadRows::kEmpty,
                   .ignores_unknown =
                       config.unknown_columns == ServingConfig::UnknownColumns::kIgnore},
        .max_cell_bytes = kBodiesAtOnce * config.max_body_bytes,
        .queue_timeout = config.queue_timeout};
    api = std::make_unique<PredictApi>(options, *backend, registry);
    api->SetTokens(secrets.tokens);
    SIMURGH_RETURN_IF_ERROR(StartEndpoint());
    // Requests arrive from now on, so this is the last step.
    SIMURGH_ASSIGN_OR_RETURN(server,
                             HttpServer::Start(ServerOptions(config), *api, secrets.tls, registry));
    return absl::OkStatus();
  }

  Status StartEndpoint() {
    if (config.metrics.empty()) return absl::OkStatus();
    const auto readiness = [this] {
      const std::string problem = api->Problem();
      return Readiness{problem.empty(), problem};
    };
    AddProcessMetrics(registry, "serve", readiness);
    const HttpEndpoint::Options options{.address = config.metrics,
                                        .key = config.metrics_key,
                                        .process = "serve",
                                        .is_public = config.security == Security::kInsecure};
    SIMURGH_ASSIGN_OR_RETURN(endpoint, HttpEndpoint::Start(options, registry, readiness));
    return absl::OkStatus();
  }

  const ServingConfig config;
  MetricRegistry registry;
  std::unique_ptr<ScoringBackend> backend;
  std::unique_ptr<PredictApi> api;
  std::unique_ptr<HttpServer> server;
  std::unique_ptr<HttpEndpoint> endpoint;
};

StartedServing::StartedServing(const ServingConfig& config)
    : state_(std::make_unique<State>(config)) {}
StartedServing::~StartedServing() = default;

Status StartedServing::Start(const MakeBackend& make_backend) {
  const Status started = state_->Start(make_backend);
  return absl::IsAlreadyExists(started) ? absl::InvalidArgumentError(started.message()) : started;
}

const std::string& StartedServing::address() const { return state_->server->address(); }

std::string StartedServing::url() const {
  const ServingConfig& config = state_->config;
  return absl::StrCat(config.security == Security::kTls ? "https://" : "http://", address(),
                      "/v2/models/", UrlText(NameOf(config)));
}

Status StartedServing::Reload(const ServingConfig& config) {
  if (config.security != state_->config.security) {
    return absl::InvalidArgumentError("serving.security has changed; restart the server");
  }
  SIMURGH_ASSIGN_OR_RETURN(const Secrets secrets, LoadSecrets(config));
  SIMURGH_RETURN_IF_ERROR(state_->backend->Reload(config));
  state_->api->SetTokens(secrets.tokens);
  if (secrets.tls != nullptr) state_->server->SetTls(secrets.tls);
  return absl::OkStatus();
}

void StartedServing::Drain() {
  state_->api->BeginDrain();
  state_->server->Drain(std::chrono::steady_clock::now() + kDrainTimeout);
  state_->endpoint.reset();
  state_->api->EndCalls();  // After the deadline, reads may still complete.
  state_->backend.reset();  // Answers the remaining requests; the server must still exist.
  state_->server.reset();
}

Status RunServing(const ServingConfig& config, const ServingParts& parts, std::ostream& out) {
  std::stop_source stop;
  ProcessFrame frame(stop, "serving.max_connections", config.max_connections);
  StartedServing serving(config);
  SIMURGH_RETURN_IF_ERROR(serving.Start(parts.make_backend));
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
