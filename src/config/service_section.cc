#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "config/address.h"
#include "config/file.h"
#include "config/map_reader.h"
#include "config/sections.h"

namespace simurgh {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

constexpr char kAddressForms[] =
    "host:port, tcp://host:port, auto://host:port, unix:///path or shm:///path";
constexpr size_t kMaxServers = 1'024;
constexpr size_t kMaxWorkers = 64;
constexpr size_t kMaxLoaders = 1'024;
constexpr uint32_t kMaxThreads = 256;
constexpr uint32_t kMaxNumaNode = 1'023;
constexpr uint32_t kMaxCudaDevice = 255;
const std::vector<std::pair<std::string, RowPrecision>> kRowPrecisions = {
    {"f32", RowPrecision::kF32}, {"bf16", RowPrecision::kBf16}, {"f16", RowPrecision::kF16}};

void ReadMetrics(MapReader& in, InstanceConfig* instance) {
  const auto check = [](const std::string& address) {
    return AddressProblem(address, /*allow_schemes=*/false);
  };
  in.Text("metrics",
          "address of `/metrics`, `/healthz` and `/readyz`, by plain HTTP, see "
          "Security; none: not served",
          &instance->metrics, "host:port", Need::kOptional, check);
  in.When(!instance->metrics.empty(), "give metrics")
      ->Text("metrics_listen", "listening address of `metrics`, if it differs; none: `metrics`",
             &instance->metrics_listen, "host:port", Need::kOptional, check);
  instance->metrics_listen_key =
      in.Where(instance->metrics_listen.empty() ? "metrics" : "metrics_listen");
}

void ReadAddress(MapReader& in, const char* meaning, Need need, InstanceConfig* instance) {
  const auto check = [](const std::string& address) {
    return AddressProblem(address, /*allow_schemes=*/true);
  };
  in.Text("address", meaning, &instance->address, kAddressForms, need, check);
  in.When(!instance->address.empty(), "give address")
      ->Text("listen",
             "listening address, if others reach the daemon at another one, see Addresses and "
             "connections; none: `address`",
             &instance->listen, kAddressForms, Need::kOptional, check);
  instance->address_key = in.Where("address");
  instance->listen_key = in.Where(instance->listen.empty() ? "address" : "listen");
}

// Adds the only instance of a section that lists none. address: may be empty.
void AddDefaultInstance(MapReader& section, const std::string& address,
                        std::vector<InstanceConfig>* instances) {
  if (section.Has("instances")) return;
  const std::string key = section.Where("instances");
  instances->push_back({.address = address,
                        .metrics = {},
                        .listen = {},
                        .metrics_listen = {},
                        .listen_key = key,
                        .metrics_listen_key = key,
                        .address_key = key});
  section.Record("instances", "1 element");
}

// Reads `instances`. fallback: the address of the only instance if none are listed.
void ReadInstances(MapReader& section, const char* meaning, size_t limit,
                   const std::string& fallback, std::vector<InstanceConfig>* instances) {
  section.Maps(
      "instances", meaning, {1, limit},
      [&](MapReader& in) {
        const auto scope = in.For(Scope::kNone);
        InstanceConfig instance;
        ReadAddress(in,
                    "address of the daemon; port 0: any free port, see Addresses and connections",
                    Need::kRequired, &instance);
        ReadMetrics(in, &instance);
        instances->push_back(instance);
      },
      absl::StrCat("one at ", fallback));
  AddDefaultInstance(section, fallback, instances);
}

void ReadNnWorker(MapReader& section, NnWorkerConfig* config) {
  section.Integer("threads", "CPU threads of the dense network", &config->threads, 1, kMaxThreads);
  section.Choice<ComputeDevice>("device",
                                "device of the dense network; without usable CUDA, `auto` and "
                                "`cuda` use the CPU, `cuda` with a warning",
                                &config->device,
                                {{"cpu", ComputeDevice::kCpu},
                                 {"cuda", ComputeDevice::kCuda},
                                 {"auto", ComputeDevice::kAuto}});
  section.Choice<ComputePrecision>(
      "precision",
      "precision of matrix products; weights, their gradients and sums are f32, see Precision",
      &config->precision,
      {{"f32", ComputePrecision::kF32},
       {"tf32", ComputePrecision::kTf32},
       {"bf16", ComputePrecision::kBf16},
       {"f16", ComputePrecision::kF16}});
  section.Integer("batch_row_bytes",
                  "bytes of CUDA memory reserved for each of two batches of rows; 0: derived from "
                  "the features, see Row batches",
                  &config->batch_row_bytes, 0, uint64_t{1} << 40);
  section.Duration(
      "rank_timeout",
      "time that ranks wait for one that is silent; must exceed `training.retry_deadline`",
      &config->rank_timeout, kShortest, kLongest);
  section.Maps(
      "instances", "ranks, which train together, each on its share of the data", {1, kMaxRanks},
      [&](MapReader& in) {
        InstanceConfig instance;
        ReadAddress(in,
                    "address for loaders, other ranks, `simurgh checkpoint` and `simurgh train "
                    "--host`; required with the first two",
                    Need::kOptional, &instance);
        ReadMetrics(in, &instance);
        uint32_t device = 0;
        in.Integer("cuda_device", "index of the CUDA device on the rank's host", &device, 0,
                   kMaxCudaDevice, "position among the host's ranks");
        if (in.Has("cuda_device")) instance.cuda_device = device;
        config->instances.push_back(instance);
      },
      "one without an address");
  AddDefaultInstance(section, "", &config->instances);
}

void ReadLoaders(MapReader& section, LoadersConfig* config) {
  section.Duration("timeout",
                   "time that a trainer waits for the next batch of a loader before it fails",
                   &config->timeout, kShortest, kLongest);
  section.Integer("feed_buffer_bytes",
                  "bytes of loader batches that an nn-worker buffers; the next batch to train on "
                  "is always admitted",
                  &config->feed_buffer_bytes, 1 << 20, uint64_t{1} << 50);
  section.For(Scope::kTraining)
      ->Maps("instances",
             "loader processes, which read `data.train` instead of the nn-workers, see Loaders",
             {0, kMaxLoaders}, [&](MapReader& in) {
               const auto scope = in.For(Scope::kNone);
               InstanceConfig instance;
               ReadMetrics(in, &instance);
               config->instances.push_back(instance);
             });
}

// Returns the problem of a DNS name, which may begin with "*.".
std::string NameProblem(const std::string& name) {
  constexpr size_t kMaxLength = 253;  // RFC 1035.
  const std::string rest = name.starts_with("*.") ? name.substr(2) : name;
  const bool valid = !rest.empty() && rest[0] != '.' && name.size() <= kMaxLength &&
                     std::ranges::all_of(rest, [](char c) {
                       return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
                              c == '.' || c == '_';
                     });
  return valid ? "" : absl::StrCat("'", name, "' is not a DNS name");
}

void ReadAllowedNames(MapReader& in, TlsConfig* tls) {
  constexpr size_t kMaxNames = 1'024;
  in.Map("allowed_names", [&](MapReader& names) {
    for (const auto& [key, role] :
         {std::pair("embedding_ps", "embedding-ps"),
          std::pair("embedding_worker", "embedding-worker"), std::pair("nn_worker", "nn-worker"),
          std::pair("loaders", "loader")}) {
      names.Texts(key, "DNS names that a peer of this role may have in its certificate; empty: any",
                  &tls->allowed_names[role], {0, kMaxNames}, Need::kOptional,
                  "DNS names, also with a leading '*.'", NameProblem);
    }
  });
}

void ReadSecurity(MapReader& in, const std::string& folder, RpcConfig* rpc) {
  in.Choice<Security>("security", "protection of TCP connections, see Security", &rpc->security,
                      {{"loopback", Security::kLoopback},
                       {"tls", Security::kTls},
                       {"insecure", Security::kInsecure}});
  TlsConfig& tls = rpc->tls;
  in.Map("tls", [&](MapReader& files) {
    const bool used = rpc->security == Security::kTls;
    const auto when = files.When(used, "set security: tls");
    for (const auto& [key, meaning, file] :
         {std::tuple("certificate", "certificate of this daemon, then intermediate ones",
                     &tls.certificate),
          std::tuple("key", "key of the certificate, not encrypted", &tls.key),
          std::tuple("authority", "certificate of the authority that signed those of all daemons",
                     &tls.authority)}) {
      files.Text(key, meaning, file, "path of a PEM file",
                 used ? Need::kRequired : Need::kOptional);
      if (used && !file->empty()) ResolveFile(files, key, folder, file);
    }
    files.Text(
        "peer_name",
        "name that the certificate of every server must contain; none: the host of its address",
        &tls.peer_name, "name in the certificates of servers");
    ReadAllowedNames(files, &tls);
  });
  tls.where = in.Where("tls");
}

void ReadPartitionMemory(MapReader& in, EmbeddingPsConfig* config) {
  const auto is_absolute = [](const std::string& path) -> std::string {
    return path.empty() || path[0] != '/' ? absl::StrCat("'", path, "' is not an absolute path")
                                          : "";
  };
  in.Text("arena_directory",
          "directory on tmpfs or hugetlbfs for unlinked files of rows, a source of huge pages; "
          "freed at exit",
          &config->arena_directory, "absolute path of a folder", Need::kOptional, is_absolute);
  in.Text("cold_directory",
          "directory on an SSD for unlinked files of rows that have no room in memory, see Memory",
          &config->cold_directory, "absolute path of a folder", Need::kOptional, is_absolute);
  std::vector<std::string> nodes;
  in.Texts("numa_nodes",
           "NUMA nodes; partition p of a server uses processors and memory of node p modulo their "
           "number; empty: any",
           &nodes, {0, kMaxThreads}, Need::kOptional, "integers from 0 to 1023",
           [](const std::string& node) -> std::string {
             uint32_t number = 0;
             return absl::SimpleAtoi(node, &number) && number <= kMaxNumaNode
                        ? ""
                        : absl::StrCat("'", node, "' is not a node number");
           });
  for (const std::string& node : nodes) {
    if (uint32_t number = 0; absl::SimpleAtoi(node, &number)) config->numa_nodes.push_back(number);
  }
}

void CheckRanks(const ClusterConfig& config, Diagnostics* diagnostics) {
  const NnWorkerConfig& ranks = config.nn_worker;
  if (ranks.instances.size() == 1) return;
  for (size_t i = 0; i < ranks.instances.size(); ++i) {
    const std::string& address = ranks.instances[i].address;
    if (!address.empty() && !HasAnyPort(address)) continue;
    diagnostics->Report(absl::StrCat("nn_worker.instances.", i),
                        address.empty() ? "address is missing; several ranks need one each"
                                        : absl::StrCat("'", address,
                                                       "' has any port; several ranks need a "
                                                       "fixed one each"),
                        "give every nn-worker an address with a port");
  }
  if (ranks.rank_timeout <= config.training.retry_deadline) {
    diagnostics->Report("nn_worker.rank_timeout",
                        absl::StrCat(FormatDuration(ranks.rank_timeout), " is out of range"),
                        absl::StrCat("use more than training.retry_deadline, ",
                                     FormatDuration(config.training.retry_deadline)));
  }
}

}  // namespace

void ReadRpcToken(MapReader& cluster, const std::string& folder, RpcConfig* rpc) {
  cluster.Text("token_file",
               "file with a secret that daemons prove to each other, see Security; none: no token",
               &rpc->token_file, "path of a file of mode 0600");
  if (!rpc->token_file.empty()) ResolveFile(cluster, "token_file", folder, &rpc->token_file);
  rpc->token_key = cluster.Where("token_file");
}

void ReadCluster(MapReader& root, const std::string& folder, ClusterConfig* config) {
  root.Map("cluster", [&](MapReader& in) {
    const auto check = [](const std::string& name) -> std::string {
      constexpr size_t kMaxLength = 63;  // Longest DNS label.
      constexpr char kAllowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
      if (name.empty() || name.size() > kMaxLength ||
          name.find_first_not_of(kAllowed) != std::string::npos) {
        return absl::StrCat("'", name, "' is not a cluster name");
      }
      return "";
    };
    in.For(Scope::kCluster)
        ->Text("name", "cluster name; daemons of different clusters refuse each other",
               &config->name, "name of 1 to 63 of a-z, 0-9 and '-'", Need::kOptional, check);
    ReadRpcToken(in, folder, &config->rpc);
    in.For(Scope::kCluster | Scope::kModel)
        ->Integer("seed",
                  "seed of initial rows, initial dense weights, sampling and stochastic rounding",
                  &config->seed, 0, UINT64_MAX);
  });
}

void ReadRpc(MapReader& root, const std::string& folder, RpcConfig* rpc) {
  root.Map("rpc", [&](MapReader& in) {
    ReadSecurity(in, folder, rpc);
    in.Duration("connect_timeout", "timeout of one connection attempt", &rpc->connect_timeout,
                kShortest, kLongest);
    in.Duration("call_timeout", "timeout of one call, from request to response", &rpc->call_timeout,
                kShortest, kLongest);
    in.Integer("max_frame_bytes", "maximum bytes of a frame, sent or received",
               &rpc->max_frame_bytes, uint64_t{1} << 16, uint64_t{1} << 40);
    in.Integer("max_connections",
               "maximum number of connections to a daemon, see Addresses and connections",
               &rpc->max_connections, 1, 1'000'000);
    in.Integer("max_connections_per_host",
               "maximum number of connections from one address; all Unix sockets count as one",
               &rpc->max_connections_per_host, 1, 1'000'000);
    in.Integer("peer_memory_bytes",
               "maximum bytes of unanswered requests of one connection, and of responses that its "
               "peer has not read",
               &rpc->peer_memory_bytes, uint64_t{1} << 16, uint64_t{1} << 40);
    in.Duration("stall_timeout",
                "time after which a connection that stops within a message is closed",
                &rpc->stall_timeout, kShortest, kLongest);
    in.Duration("spin", "time that an RPC thread polls for events before it sleeps, see Latency",
                &rpc->spin, std::chrono::microseconds(0), std::chrono::milliseconds(10));
  });
}

void ReadServices(MapReader& root, const std::string& folder, ClusterConfig* config) {
  root.Map("embedding_ps", [&](MapReader& in) {
    in.For(Scope::kCluster)
        ->Integer("partitions", "threads of a server, each of which owns a part of the rows",
                  &config->embedding_ps.partitions, 1, kMaxThreads);
    in.Integer("memory_budget", "maximum resident bytes of a server; 0: no limit, see Memory",
               &config->embedding_ps.memory_budget, 0, uint64_t{1} << 50);
    in.Choice<bool>("concurrent_runs",
                    "reaction to a second run that trains; `refuse`: it waits until "
                    "`training.retry_deadline`; `allow`: both change the rows",
                    &config->embedding_ps.concurrent_runs, {{"refuse", false}, {"allow", true}});
    in.Duration("run_timeout",
                "time without a training request after which a run that has not reported its end "
                "is over",
                &config->embedding_ps.run_timeout, kShortest, kLongest);
    ReadPartitionMemory(in, &config->embedding_ps);
    const auto scope = in.For(Scope::kCluster);
    ReadInstances(in, "parameter servers; rows are spread over all partitions of all servers",
                  kMaxServers, "127.0.0.1:7401", &config->embedding_ps.instances);
  });
  root.Map("embedding_worker", [&](MapReader& in) {
    EmbeddingWorkerConfig& worker = config->embedding_worker;
    in.Integer("threads", "threads that group ids, pool rows and compute row gradients",
               &worker.threads, 1, kMaxThreads);
    in.Integer("forward_buffer_batches",
               "maximum number of buffered batches over all nn-workers, see Forward buffer",
               &worker.forward_buffer_batches, 1, 1'000'000);
    in.Integer("forward_buffer_bytes",
               "maximum bytes of buffered batches over all nn-workers, see Forward buffer",
               &worker.forward_buffer_bytes, 1 << 20, uint64_t{1} << 50);
    in.Duration("batch_expiry", "time without a request after which a buffered batch is dropped",
                &worker.batch_expiry, kShortest, kLongest);
    in.Choice<RowPrecision>("row_precision",
                            "precision of rows sent by servers, rounded to nearest",
                            &worker.row_precision, kRowPrecisions);
    in.Choice<RowPrecision>("row_gradient_precision",
                            "precision of row gradients sent to servers, rounded to nearest",
                            &worker.row_gradient_precision, kRowPrecisions);
    in.Integer(
        "row_cache_bytes",
        "bytes of memory for cached rows, divided equally among ranks; 0: no cache, see Row cache",
        &worker.row_cache_bytes, 0, uint64_t{1} << 50);
    ReadInstances(in, "embedding workers; batches are distributed to them round-robin", kMaxWorkers,
                  "127.0.0.1:7411", &worker.instances);
  });
  root.Map("nn_worker", [&](MapReader& in) { ReadNnWorker(in, &config->nn_worker); });
  root.Map("loaders", [&](MapReader& in) { ReadLoaders(in, &config->loaders); });
  ReadRpc(root, folder, &config->rpc);
}

// Checks that the keys of cold rows come together.
void CheckColdRows(const ClusterConfig& config, Diagnostics* diagnostics) {
  const bool has_folder = !config.embedding_ps.cold_directory.empty();
  bool is_limited = config.embedding_ps.memory_budget > 0;
  for (const TableConfig& table : config.tables) {
    if (table.memory_rows == 0) continue;
    is_limited = true;
    if (has_folder) continue;
    diagnostics->Report("tables." + table.name, "memory_rows needs a place for the other rows",
                        "set embedding_ps.cold_directory, or remove memory_rows");
  }
  if (!has_folder || is_limited) return;
  diagnostics->Report("embedding_ps.cold_directory", "no row is moved there: memory has no limit",
                      "set embedding_ps.memory_budget, or memory_rows of tables");
}

void CheckServices(const ClusterConfig& config, Diagnostics* diagnostics) {
  std::map<std::string, std::string> taken;  // Address -> the key that has it.
  const auto check = [&](const std::string& address, const std::string& key) {
    if (address.empty() || HasAnyPort(address)) return;
    const auto [entry, is_new] = taken.emplace(absl::AsciiStrToLower(WithoutScheme(address)), key);
    if (is_new) return;
    diagnostics->Report(key, absl::StrCat("'", address, "' is taken by ", entry->second),
                        "use different addresses");
  };
  const auto check_all = [&](const std::vector<InstanceConfig>& instances,
                             const std::string& section) {
    for (size_t i = 0; i < instances.size(); ++i) {
      const std::string key = absl::StrCat(section, ".instances.", i);
      for (const auto& [name, address] : {std::pair(".address", instances[i].address),
                                          std::pair(".listen", instances[i].listen)}) {
        if (config.rpc.security != Security::kLoopback || !IsOpenAddress(address)) continue;
        diagnostics->Report(absl::StrCat(key, name),
                            absl::StrCat("'", address,
                                         "' is reachable from other machines, but rpc.security is "
                                         "loopback"),
                            "use a loopback address, rpc.security: tls, or rpc.security: insecure "
                            "in a network that you trust");
      }
      check(instances[i].address, absl::StrCat(key, ".address"));
      check(instances[i].metrics, absl::StrCat(key, ".metrics"));
    }
  };
  check_all(config.embedding_ps.instances, "embedding_ps");
  check_all(config.embedding_worker.instances, "embedding_worker");
  check_all(config.nn_worker.instances, "nn_worker");
  check_all(config.loaders.instances, "loaders");
  const std::vector<InstanceConfig>& ranks = config.nn_worker.instances;
  if (!config.loaders.instances.empty() && ranks.size() == 1 && ranks[0].address.empty()) {
    diagnostics->Report("nn_worker.instances.0", "address is missing, which loaders need",
                        "give it an address, or remove loaders.instances");
  }

  if (config.nn_worker.precision == ComputePrecision::kF16 &&
      config.nn_worker.device == ComputeDevice::kCpu) {
    diagnostics->Report("nn_worker.precision", "f16 requires a CUDA device",
                        "use f32 or bf16, or device: cuda");
  }
  CheckColdRows(config, diagnostics);
  CheckRanks(config, diagnostics);
  CheckRpc(config.rpc, diagnostics);
}

void CheckRpc(const RpcConfig& rpc, Diagnostics* diagnostics) {
  if (rpc.security != Security::kInsecure || !rpc.token_file.empty()) return;
  diagnostics->Report("rpc.security", "insecure requires a token",
                      "set cluster.token_file, or use tls, or loopback on one machine");
}

namespace {

void ReadTimes(MapReader& in, CheckpointConfig* checkpoint) {
  in.Integer("every_steps", "number of steps between checkpoints while training; 0: not by steps",
             &checkpoint->every_steps, 0, uint64_t{1} << 40);
  std::vector<std::string> steps;
  in.Texts("at_steps", "numbers of trained steps after which a checkpoint is saved", &steps,
           {0, 1'000}, Need::kOptional, "numbers of steps", [](const std::string& text) {
             uint64_t step = 0;
             return absl::SimpleAtoi(text, &step) && step > 0 ? "" : "is no number of steps";
           });
  for (const std::string& text : steps) {
    uint64_t step = 0;
    if (absl::SimpleAtoi(text, &step)) checkpoint->at_steps.insert(step);
  }
  in.Duration("every", "time between checkpoints while training; 0ms: not by time",
              &checkpoint->every, std::chrono::milliseconds(0), std::chrono::hours(24 * 7));
}

}  // namespace

void ReadCheckpoint(MapReader& root, const std::string& folder, CheckpointConfig* checkpoint) {
  root.Map("checkpoint", [&](MapReader& in) {
    std::string& directory = checkpoint->directory;
    ReadModelFolder(in, "directory",
                    "folder or bucket in which training saves its model, and from which it "
                    "continues; none: nothing is saved",
                    folder, &directory);
    ReadModelFolder(in, "start_from",
                    "model whose rows and dense weights a new training begins with; see Warm start",
                    folder, &checkpoint->start_from);
    const auto when_saving = [&] { return in.When(!directory.empty(), "set directory"); };
    {
      const auto when = when_saving();
      ReadTimes(in, checkpoint);
    }
    in.Integer("keep", "number of checkpoints to keep; older ones are removed after a save",
               &checkpoint->keep, 1, 1'000'000);
    in.Integer("full_every",
               "every N-th checkpoint has all rows, the others those that changed since the one "
               "before; 1: all are full",
               &checkpoint->full_every, 1, 1'000'000);
    in.Integer("keep_best",
               "number of checkpoints with the best evaluations to keep, too; requires evaluations "
               "of `data.validation` while training, see Best checkpoint",
               &checkpoint->keep_best, 0, 1'000);
    ReadMetric(in, "best_by", "metric of the best checkpoints; with `early_stopping`, its `metric`",
               &checkpoint->best_by);
    in.Integer("memory",
               "maximum bytes per server for rows that change before they are saved; "
               "beyond it, pulls wait for the disk",
               &checkpoint->memory, uint64_t{64} << 10, uint64_t{1} << 50);
    in.Integer("bandwidth",
               "maximum bytes per second that a server writes to checkpoints; ignored while pulls "
               "wait for `memory`; 0: no limit",
               &checkpoint->bandwidth, 0, uint64_t{1} << 50);
    in.Choice("on_error", "whether training continues after a checkpoint could not be saved",
              &checkpoint->on_error,
              {{"continue", CheckpointConfig::OnError::kContinue},
               {"stop", CheckpointConfig::OnError::kStop}});
    when_saving()->Choice(
        "on_server_loss",
        "whether the loss of a server's rows rolls back the training, or only these rows, see Lost "
        "servers",
        &checkpoint->on_server_loss,
        {{"rollback", CheckpointConfig::OnServerLoss::kRollback},
         {"partial", CheckpointConfig::OnServerLoss::kPartial}});
  });
}

}  // namespace simurgh
