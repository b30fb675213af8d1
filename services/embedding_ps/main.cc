// embedding-ps: the parameter server of embedding rows, and with --serve of those of a model.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "base/log.h"
#include "base/mutex.h"
#include "config/cluster_config.h"
#include "config/serving_config.h"
#include "embedding/bucket_map.h"
#include "predict/remote_rows.h"
#include "predict/served_versions.h"
#include "rpc/async.h"
#include "rpc/server.h"
#include "services/api/reply.h"
#include "services/api/served_rows.h"
#include "services/embedding_ps/dense_methods.h"
#include "services/embedding_ps/parameter_server.h"
#include "services/embedding_ps/row_methods.h"
#include "services/runtime/daemon.h"
#include "services/runtime/listener.h"
#include "telemetry/metrics.h"

namespace simurgh {
namespace {

// Idle memory kept in the pool of request and response buffers.
constexpr size_t kIdleBufferBytes = size_t{256} << 20;

class EmbeddingPs : public Daemon {
 public:
  // with_digests: whether to log digests of all rows when stopping.
  static StatusOr<std::unique_ptr<Daemon>> Start(DaemonContext& context, bool with_digests) {
    std::unique_ptr<EmbeddingPs> daemon(new EmbeddingPs(context, with_digests));
    SIMURGH_ASSIGN_OR_RETURN(
        daemon->rows_,
        ParameterServer::Create(context.config(), daemon->metrics_, context.index()));
    daemon->rows_->SetFatal([&context](const Status& reason) { context.Fail(reason); });
    rpc::ServerOptions options = context.rpc_options().server;
    options.peer_bytes = PeerBytes(context.config().embedding_ps.memory_budget);
    SIMURGH_RETURN_IF_ERROR(daemon->listener_.Listen(context, options, [&](rpc::Server& server) {
      RegisterRowMethods(server, *daemon->rows_, daemon->runs_, daemon->buffers_,
                         MapOf(context.config()).version());
      RegisterDenseMethods(server, daemon->dense_, daemon->runs_, daemon->buffers_);
    }));
    context.SetReady();
    return std::move(daemon);
  }

  ~EmbeddingPs() override { listener_.Close(); }

  void Drain(std::chrono::steady_clock::time_point deadline) override {
    rows_->CloseBarriers();
    listener_.Drain(deadline);
    if (!with_digests_) return;
    const std::vector<uint64_t> digests = rows_->ContentDigests();
    for (size_t t = 0; t < digests.size(); ++t) {
      spdlog::info("rows of table {}: digest {:016x}", tables_[t].name, digests[t]);
    }
  }

 private:
  EmbeddingPs(DaemonContext& context, bool with_digests)
      : tables_(context.config().tables),
        with_digests_(with_digests),
        metrics_(context.metrics(), context.config()),
        runs_(context.config().embedding_ps),
        listener_(context),
        dense_(context.metrics()) {}

  const std::vector<TableConfig>& tables_;
  const bool with_digests_;
  ServerMetrics metrics_;
  BufferPool buffers_{kIdleBufferBytes};
  RunGuard runs_;
  Listener listener_;
  // After listener_: their threads post to it until they end.
  std::unique_ptr<ParameterServer> rows_;
  DenseStore dense_;
};

struct Counters {
  explicit Counters(MetricRegistry& registry)
      : ids(registry.GetCounter("simurgh_serve_read_ids_total", "Ids that clients have read.")),
        absent(registry.GetCounter("simurgh_serve_read_absent_ids_total",
                                   "Ids that clients have read and that have no row.")) {}

  Counter& ids;
  Counter& absent;
};

Reply<api::UseVersions> HandleUse(rpc::RequestOf<api::UseVersions::Request> request,
                                  const RowShare& share, const ServedVersions& versions,
                                  VersionUsers& users) {
  SIMURGH_CO_ASSIGN_OR_RETURN(const std::vector<VersionName> used, api::DecodeUse(request.table()));
  // First: a version of the answer is not dropped before the user's next word.
  users.Note(request.table().user(), used, VersionUsers::Clock::now());
  api::ServerVersions answer{.server = share.server(), .servers = share.servers()};
  for (const auto& version : versions.Loaded()) answer.versions.push_back(version->name());
  answer.problem = versions.Problem();
  co_return api::Encode(answer);
}

Reply<api::ReadServedRows> HandleRead(rpc::RequestOf<api::ReadServedRows::Request> request,
                                      const std::vector<RowRead::Group>& groups,
                                      const ServedVersions& versions,
                                      rpc::asio::any_io_executor compute, Counters counters) {
  const std::span<const uint64_t> ids = request.segment<"ids">();
  const std::shared_ptr<const ModelVersion> version =
      versions.FindChecksum(request.table().checksum());
  if (version == nullptr) {
    co_return absl::NotFoundError("the version is not loaded any more, or not yet");
  }
  SIMURGH_CO_ASSIGN_OR_RETURN(RowAnswer answer, co_await rpc::RunOn(compute, [&] {
                                return AnswerRead(
                                    *version, groups, ids, [&request](size_t bytes) -> RowMemory {
                                      const rpc::SegmentBuffer buffer = request.Allocate(bytes);
                                      return {buffer.bytes, buffer.owner};
                                    });
                              }));
  uint64_t present = 0;
  for (size_t i = 0; i < ids.size(); ++i) present += answer.Has(i) ? 1 : 0;
  counters.ids.Add(ids.size());
  counters.absent.Add(ids.size() - present);
  const auto bits = std::make_shared<const std::vector<uint8_t>>(std::move(answer.present));
  co_return rpc::Outgoing<api::ReadServedRows::Response>({*bits, bits},
                                                         {answer.rows, answer.owner});
}

// The methods of `embedding-ps --serve`. Rows are searched and copied on `compute`.
//
// Lifetime: all of these outlive the server.
void RegisterServedRowMethods(rpc::Server& server, const RowShare& share,
                              const ServedVersions& versions, VersionUsers& users,
                              boost::asio::any_io_executor compute, MetricRegistry& metrics) {
  rpc::Register(server, api::kUseVersions, [&share, &versions, &users](auto request) {
    return HandleUse(std::move(request), share, versions, users);
  });
  using ReadPlaced = rpc::PlacedWith<api::ReadServedRows::Request, std::vector<RowRead::Group>>;
  const auto place =
      [](const api::wire::ReadServedRowsRequest& request,
         const api::ReadServedRows::Request::Counts& counts) -> StatusOr<ReadPlaced> {
    SIMURGH_ASSIGN_OR_RETURN(auto groups, api::DecodeGroups(request, counts[0]));
    // Not shared with the client, which could change them during the search.
    const auto ids = std::make_shared<std::vector<uint64_t>>(counts[0]);
    return ReadPlaced{{{*ids, ids}}, std::move(groups)};
  };
  const Counters counters(metrics);
  rpc::Register(server, api::kReadServedRows, place,
                [&versions, compute, counters](auto request, auto& groups) {
                  return HandleRead(std::move(request), groups, versions, compute, counters);
                });
}

// What the configuration of the frame does not have.
struct Settings {
  ServingConfig serving;
  std::vector<std::string> model_overrides;  // See ConfigOfModel().
};

// The command line, and the settings that it gives now.
class ServeFlags {
 public:
  StatusOr<ClusterConfig> Load(const DaemonFlags& flags) {
    Settings settings;
    std::vector<std::string> overrides;
    for (const std::string& one : flags.overrides) {
      const bool is_own = one.starts_with("serving.") || one.starts_with("rpc.") ||
                          one.starts_with("cluster.token_file=");
      (is_own ? overrides : settings.model_overrides).push_back(one);
    }
    if (!model.empty()) {
      overrides.push_back(
          absl::StrCat("serving.model=", YamlText(std::filesystem::absolute(model).string())));
    }
    SIMURGH_ASSIGN_OR_RETURN(settings.serving, LoadServingConfig(flags.config_path, overrides));
    const ServingConfig& serving = settings.serving;
    if (serving.model.empty()) {
      return absl::InvalidArgumentError("--serve MODEL is empty; give the folder of a model");
    }
    if (serving.servers.empty()) {
      return absl::InvalidArgumentError(
          "serving.servers is missing; list the addresses of all servers of the rows, in the file "
          "or with --set serving.servers=HOST:PORT,HOST:PORT");
    }
    ClusterConfig cluster = api::ClusterOf(serving);
    std::vector<InstanceConfig>& servers = cluster.embedding_ps.instances;
    if (flags.index < servers.size()) {
      servers[flags.index].metrics = metrics;
      servers[flags.index].metrics_listen_key = "--metrics";
    }
    MutexLock lock(mutex_);
    settings_ = std::move(settings);
    return cluster;
  }

  Settings settings() {
    MutexLock lock(mutex_);
    return settings_;
  }

  std::string model;
  std::string metrics;

 private:
  Mutex mutex_;
  Settings settings_ ABSL_GUARDED_BY(mutex_);
};

std::string VersionOf(const ServingConfig& config) {
  return config.version ? absl::StrCat(*config.version) : "latest";
}

class RowServer : public Daemon {
 public:
  static StatusOr<std::unique_ptr<Daemon>> Start(DaemonContext& context, ServeFlags& flags) {
    std::unique_ptr<RowServer> daemon(new RowServer(context, flags.settings()));
    SIMURGH_RETURN_IF_ERROR(daemon->listener_.Listen(context, [&](rpc::Server& server) {
      RegisterServedRowMethods(server, daemon->share_, daemon->versions_, daemon->users_,
                               daemon->compute_.get_executor(), context.metrics());
    }));
    ServedVersions& versions = daemon->versions_;
    context.SetReload([&versions, &flags](const ClusterConfig& /*config*/) {
      versions.Reload(VersionOf(flags.settings().serving));
      return absl::OkStatus();
    });
    context.SetReadiness([&versions] { return versions.Problem(); });
    return std::move(daemon);
  }

  ~RowServer() override {
    listener_.Close();
    compute_.join();
  }

  void Drain(std::chrono::steady_clock::time_point deadline) override { listener_.Drain(deadline); }

 private:
  RowServer(DaemonContext& context, const Settings& settings)
      : share_(context.index(),
               static_cast<uint32_t>(context.config().embedding_ps.instances.size())),
        versions_({.model = settings.serving.model,
                   .version = VersionOf(settings.serving),
                   .poll = settings.serving.poll,
                   .max_age = settings.serving.max_age,
                   .memory_budget = settings.serving.memory_budget,
                   .loading = {.overrides = settings.model_overrides, .share = share_},
                   .users = &users_},
                  context.metrics()),
        compute_(settings.serving.threads > 0 ? settings.serving.threads
                                              : std::max(1U, std::thread::hardware_concurrency())),
        listener_(context) {}

  const RowShare share_;
  VersionUsers users_;
  ServedVersions versions_;
  rpc::asio::thread_pool compute_;
  Listener listener_;  // Last: its handlers use the above.
};

// Whether the arguments ask for ServeRows().
bool HasServeFlag(int argc, const char* const* argv) {
  return std::any_of(argv + std::min(argc, 1), argv + argc, [](std::string_view word) {
    return word == "--serve" || word.starts_with("--serve=");
  });
}

// `embedding-ps --serve MODEL`: serves a share of a model's rows, read only, until it is stopped.
// Returns the exit code.
int ServeRows(int argc, const char* const* argv) {
  ServeFlags flags;
  DaemonDescription description{
      .role = "embedding-ps",
      .usage = {.program = "embedding-ps",
                .summary =
                    "Serves a share of the rows of a trained model, for simurgh serve with "
                    "serving.rows: remote. Follows the newest checkpoint, and keeps two versions.",
                .arguments = "--serve MODEL"},
      .instances_key = "serving.servers",
      .load = [&flags](const DaemonFlags& given) { return flags.Load(given); },
      .instances = [](const ClusterConfig& config) -> const auto& {
        return config.embedding_ps.instances;
      }};
  description.usage.own_options.add_options()(
      "serve", boost::program_options::value(&flags.model)->value_name("MODEL"),
      "serve the rows of this model's folder; of the file, only the sections serving and rpc "
      "are read")("metrics", boost::program_options::value(&flags.metrics)->value_name("HOST:PORT"),
                  "serve /metrics, /healthz and /readyz here");
  return RunDaemon(description, argc, argv,
                   [&flags](DaemonContext& context) { return RowServer::Start(context, flags); });
}

}  // namespace
}  // namespace simurgh

int main(int argc, char** argv) {
  if (simurgh::HasServeFlag(argc, argv)) return simurgh::ServeRows(argc, argv);
  bool with_digests = false;
  simurgh::DaemonDescription description{
      .role = "embedding-ps",
      .usage = {.program = "embedding-ps",
                .summary =
                    "Parameter server of a Simurgh cluster: stores embedding rows in "
                    "memory, applies the "
                    "sparse optimizer and evicts the least recently used rows. With --serve MODEL "
                    "it serves the rows of a trained model; see --serve MODEL --help."},
      .instances_key = "embedding_ps.instances",
      .instances = [](const simurgh::ClusterConfig& config) -> const auto& {
        return config.embedding_ps.instances;
      }};
  description.check = [](const simurgh::ClusterConfig& config) {
    simurgh::MetricRegistry registry;
    simurgh::ServerMetrics metrics(registry, config);
    return simurgh::ParameterServer::Create(config, metrics).status();
  };
  description.usage.own_options.add_options()(
      "digests", boost::program_options::bool_switch(&with_digests),
      "log a digest of every table's rows at shutdown; the sum over all servers is equal for "
      "equal rows");
  return simurgh::RunDaemon(description, argc, argv, [&](simurgh::DaemonContext& context) {
    return simurgh::EmbeddingPs::Start(context, with_digests);
  });
}
