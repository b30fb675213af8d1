#include "services/serving/row_servers.h"

#include <algorithm>
#include <exception>
#include <new>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <boost/asio/use_future.hpp>

#include "config/cluster_config.h"
#include "services/api/served_rows.h"
#include "services/runtime/rpc_setup.h"

namespace simurgh {
namespace {

const CounterFamily kHotRowHitsTotal("simurgh_serve_hot_row_hits_total",
                                     "Distinct ids of batches whose rows were in the cache.");
const CounterFamily kHotRowMissesTotal("simurgh_serve_hot_row_misses_total",
                                       "Distinct ids of batches that were read from servers.");
const CounterFamily kRowReadFailuresTotal("simurgh_serve_row_read_failures_total",
                                          "Reads of rows that a server did not answer.",
                                          {"server"});

constexpr std::chrono::milliseconds kLongestRead{2'000};
constexpr std::chrono::seconds kUseTimeout{2};  // VersionUsers expire much later.

rpc::Hello HelloOf(const ClusterConfig& cluster, uint64_t incarnation) {
  rpc::Hello hello;
  hello.cluster = cluster.name;
  hello.role = "serve";
  hello.incarnation = incarnation;
  hello.configuration = ClusterAgreement(cluster);
  return hello;
}

std::string StepsOf(const std::vector<VersionName>& versions) {
  if (versions.empty()) return "no version";
  return absl::StrCat(
      versions.size() == 1 ? "step " : "steps ",
      absl::StrJoin(versions, ", ", [](std::string* out, const VersionName& version) {
        absl::StrAppend(out, version.step);
      }));
}

}  // namespace

StatusOr<std::shared_ptr<RowServers>> RowServers::Create(const ServingConfig& config,
                                                         MetricRegistry& registry) {
  SIMURGH_ASSIGN_OR_RETURN(const RpcOptions options, MakeRpcOptions(config.rpc));
  const ClusterConfig cluster = api::ClusterOf(config);
  std::shared_ptr<RowServers> servers(new RowServers(config, cluster, registry));
  // Only their thread may use the clients.
  servers->thread_.RunAndWait([&] {
    const std::vector<InstanceConfig>& instances = servers->cluster_.embedding_ps.instances;
    for (size_t i = 0; i < instances.size(); ++i) {
      servers->servers_[i].client = std::make_unique<rpc::Client>(
          servers->thread_.executor(), instances[i].address, HelloOf(cluster, servers->user_),
          OptionsFor(options.client, "row-server", instances, i), &servers->observer_);
    }
  });
  return servers;
}

RowServers::RowServers(const ServingConfig& config, const ClusterConfig& cluster,
                       MetricRegistry& registry)
    : cluster_(cluster),
      user_(uint64_t{std::random_device()()} << 32 | std::random_device()() | 1),  // Never 0.
      read_timeout_(std::min(config.request_timeout, kLongestRead)),
      patience_(std::min(config.queue_timeout, read_timeout_)),
      hits_(registry.Get(kHotRowHitsTotal)),
      misses_(registry.Get(kHotRowMissesTotal)),
      answers_(cluster.embedding_ps.instances.size()),
      is_down_(cluster.embedding_ps.instances.size()),
      observer_(registry, RpcSide::kClient),
      thread_("row-servers", config.rpc.spin) {
  for (const InstanceConfig& instance : cluster.embedding_ps.instances) {
    servers_.push_back(
        {.name = absl::StrCat("serving.servers.", servers_.size(), ": ", instance.address),
         .client = nullptr,
         .failures = &registry.Get(kRowReadFailuresTotal, {instance.address})});
  }
}

RowServers::~RowServers() {
  thread_.RunAndWait([this] {
    for (Server& server : servers_) server.client.reset();
  });
}

Status RowServers::OnServers(absl::FunctionRef<rpc::awaitable<Status>(size_t server)> call) {
  const auto all = [&]() -> rpc::awaitable<Status> {
    std::vector<rpc::awaitable<Status>> tasks;
    for (size_t server = 0; server < servers_.size(); ++server) tasks.push_back(call(server));
    co_return co_await rpc::WhenAll(std::move(tasks));
  };
  try {
    return rpc::asio::co_spawn(thread_.executor(), all, rpc::asio::use_future).get();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("cannot call servers of rows: ", error.what()));
  }
}

Status RowServers::Check(size_t server, std::span<const VersionName> versions,
                         const api::ServerVersions& answer) const {
  const std::string& name = servers_[server].name;
  if (answer.servers != servers_.size() || answer.server != server) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " is server ", answer.server, " of ", answer.servers, ", here it is ", server, " of ",
        servers_.size(), "; use the same serving.servers for all processes"));
  }
  for (const VersionName& theirs : answer.versions) {
    for (const VersionName& own : versions) {
      if (theirs.training == own.training) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(name, " has the rows of another model: training ", theirs.training,
                       " instead of ", own.training, "; start it with the folder of this model"));
    }
  }
  return absl::OkStatus();
}

rpc::awaitable<Status> RowServers::UseOn(size_t server, std::span<const VersionName> versions,
                                         rpc::Clock::time_point deadline) {
  rpc::CallOptions options(deadline);
  options.patience = kUseTimeout / 2;
  const auto response = co_await rpc::Call(*servers_[server].client, api::kUseVersions,
                                           api::EncodeUse(user_, versions), options);
  const std::string& name = servers_[server].name;
  if (!response.ok()) {
    const Status& status = response.status();
    {
      MutexLock lock(mutex_);
      is_down_[server] = true;
    }
    // This message names the server.
    if (absl::IsInvalidArgument(status)) co_return status;
    co_return absl::UnavailableError(absl::StrCat(name, ": ", std::string(status.message())));
  }
  api::ServerVersions answer = api::Decode(response->table());
  const Status checked = Check(server, versions, answer);
  MutexLock lock(mutex_);
  is_down_[server] = !checked.ok();
  answers_[server] = std::move(answer);
  co_return checked;
}

StatusOr<std::vector<VersionName>> RowServers::Use(std::span<const VersionName> versions) {
  const rpc::Clock::time_point deadline = rpc::Clock::now() + kUseTimeout;
  SIMURGH_RETURN_IF_ERROR(
      OnServers([&](size_t server) { return UseOn(server, versions, deadline); }));
  MutexLock lock(mutex_);
  std::vector<VersionName> common = answers_[0].versions;
  for (const api::ServerVersions& answer : answers_) {
    std::erase_if(common, [&answer](const VersionName& version) {
      return std::ranges::find(answer.versions, version) == answer.versions.end();
    });
  }
  return common;
}

std::string RowServers::WhoLacks(const VersionName& version) {
  MutexLock lock(mutex_);
  std::vector<std::string> lacking;
  for (size_t i = 0; i < answers_.size(); ++i) {
    const api::ServerVersions& answer = answers_[i];
    if (std::ranges::find(answer.versions, version) != answer.versions.end()) continue;
    lacking.push_back(
        absl::StrCat(servers_[i].name, " has ", StepsOf(answer.versions),
                     answer.problem.empty() ? "" : absl::StrCat(": ", answer.problem)));
  }
  return absl::StrCat("step ", version.step,
                      " waits for servers of rows: ", absl::StrJoin(lacking, "; "));
}

rpc::awaitable<Status> RowServers::ReadFrom(size_t server, uint64_t checksum, const RowRead& read,
                                            RowAnswer& answer, rpc::CallOptions options) {
  if (read.ids.empty()) co_return absl::OkStatus();
  const std::string& name = servers_[server].name;
  using Places = rpc::Destinations<api::ReadServedRows::Response>;
  const auto place = [&answer, bits = (read.ids.size() + 7) / 8](
                         const api::ReadServedRows::Response::Counts& counts) -> StatusOr<Places> {
    if (counts[0] != bits) return absl::InternalError("another number of ids was answered");
    answer.present.resize(bits);
    return Places{{answer.present}, rpc::SegmentDestination<std::byte>::kAllocate};
  };
  const auto response = co_await rpc::Call(*servers_[server].client, api::kReadServedRows,
                                           api::Encode(checksum, read), place, options);
  if (response.ok()) {
    answer.rows = response->template segment<"rows">();
    answer.owner = response->template owner<"rows">();
    co_return absl::OkStatus();
  }
  const Status& status = response.status();
  const std::string message = absl::StrCat(name, ": ", std::string(status.message()));
  if (absl::IsNotFound(status)) co_return absl::NotFoundError(message);
  servers_[server].failures->Add();
  // The server is reachable: for example, the answer would be too large.
  if (absl::IsResourceExhausted(status)) co_return absl::ResourceExhaustedError(message);
  MutexLock lock(mutex_);
  is_down_[server] = true;
  co_return absl::UnavailableError(absl::StrCat("no rows from ", message));
}

Status RowServers::Read(uint64_t checksum, std::span<const RowRead> reads,
                        std::span<RowAnswer> answers) {
  {
    MutexLock lock(mutex_);
    for (size_t i = 0; i < servers_.size(); ++i) {
      if (!is_down_[i] || reads[i].ids.empty()) continue;
      servers_[i].failures->Add();
      return absl::UnavailableError(
          absl::StrCat("no rows from ", servers_[i].name, ", which does not answer"));
    }
  }
  rpc::CallOptions options(rpc::Clock::now() + read_timeout_);
  options.patience = patience_;
  return OnServers([&](size_t server) {
    return ReadFrom(server, checksum, reads[server], answers[server], options);
  });
}

}  // namespace simurgh
