// row-server: serves a share of the rows of a trained model, read only, until it is stopped.

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <boost/asio/thread_pool.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "base/mutex.h"
#include "config/cluster_config.h"
#include "config/serving_config.h"
#include "config/uri.h"
#include "predict/remote_rows.h"
#include "predict/served_versions.h"
#include "rpc/async.h"
#include "rpc/server.h"
#include "services/api/served_rows.h"
#include "services/row_server/served_row_methods.h"
#include "services/runtime/daemon.h"
#include "services/runtime/listener.h"

namespace simurgh {
namespace {

// The command line, and the settings that it gives now.
class ServeFlags {
 public:
  StatusOr<ClusterConfig> Load(const DaemonFlags& flags) {
    std::vector<std::string> overrides = flags.overrides;
    if (!model.empty()) {
      overrides.push_back(absl::StrCat("serving.model=", YamlText(AbsoluteFolder(model))));
    }
    SIMURGH_ASSIGN_OR_RETURN(ServingConfig serving,
                             LoadServingConfig(flags.config_path, overrides));
    if (serving.model.empty()) {
      return absl::InvalidArgumentError(
          "--model is missing, and serving.model; give the folder of a model");
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
    serving_ = std::move(serving);
    return cluster;
  }

  ServingConfig serving() {
    MutexLock lock(mutex_);
    return serving_;
  }

  std::string model;
  std::string metrics;

 private:
  Mutex mutex_;
  ServingConfig serving_ ABSL_GUARDED_BY(mutex_);
};

class RowServer : public Daemon {
 public:
  static StatusOr<std::unique_ptr<Daemon>> Start(DaemonContext& context, ServeFlags& flags) {
    std::unique_ptr<RowServer> daemon(new RowServer(context, flags.serving()));
    SIMURGH_RETURN_IF_ERROR(daemon->listener_.Listen(context, [&](rpc::Server& server) {
      RegisterServedRowMethods(server, daemon->share_, daemon->versions_, daemon->users_,
                               daemon->compute_.get_executor(), context.metrics());
    }));
    ServedVersions& versions = daemon->versions_;
    context.SetReload([&versions, &flags](const ClusterConfig& /*config*/) {
      versions.Reload(flags.serving().version);
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
  RowServer(DaemonContext& context, const ServingConfig& serving)
      : share_(context.index(),
               static_cast<uint32_t>(context.config().embedding_ps.instances.size())),
        versions_({.model = serving.model,
                   .version = serving.version,
                   .poll = serving.poll,
                   .max_age = serving.max_age,
                   .memory_budget = serving.memory_budget,
                   .loading = {.overrides = serving.model_overrides,
                               .share = share_,
                               .row_precision = serving.row_precision,
                               .maps_rows = serving.rows == ServingConfig::Rows::kMapped},
                   .users = &users_},
                  context.metrics()),
        compute_(ThreadsOf(serving)),
        listener_(context) {}

  const RowShare share_;
  VersionUsers users_;
  ServedVersions versions_;
  rpc::asio::thread_pool compute_;
  Listener listener_;  // Last: its handlers use the above.
};

}  // namespace
}  // namespace simurgh

int main(int argc, char** argv) {
  simurgh::ServeFlags flags;
  simurgh::DaemonDescription description{
      .role = "row-server",
      .usage = {.program = "row-server",
                .summary = "Serves a share of the rows of a trained model, for simurgh serve with "
                           "serving.rows: remote. Follows the best checkpoint, without one the "
                           "newest, and keeps two versions.",
                .arguments = "--model MODEL"},
      .instances_key = "serving.servers",
      .load = [&flags](const simurgh::DaemonFlags& given) { return flags.Load(given); },
      .instances = [](const simurgh::ClusterConfig& config) -> const auto& {
        return config.embedding_ps.instances;
      }};
  description.usage.own_options.add_options()(
      "model", boost::program_options::value(&flags.model)->value_name("MODEL"),
      "serve the rows of this model's folder; the file needs only the sections serving and rpc")(
      "metrics", boost::program_options::value(&flags.metrics)->value_name("HOST:PORT"),
      "serve /metrics, /healthz and /readyz here");
  return simurgh::RunDaemon(description, argc, argv, [&flags](simurgh::DaemonContext& context) {
    return simurgh::RowServer::Start(context, flags);
  });
}
