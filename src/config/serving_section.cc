#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "config/address.h"
#include "config/file.h"
#include "config/sections.h"
#include "config/serving_config.h"
#include "config/yaml_node.h"

namespace simurgh {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr char kSection[] = "serving";
constexpr uint64_t kMostBytes = uint64_t{1} << 50;

void ReadVersion(MapReader& in, ServingConfig* config) {
  in.Text("version",
          "version to serve: `best` checkpoint, without one the newest; `latest`, the newest; or a "
          "step",
          &config->version, "best, latest or a step", Need::kOptional,
          [](const std::string& text) -> std::string {
            uint64_t step = 0;
            if (text == "best" || text == "latest" || absl::SimpleAtoi(text, &step)) return "";
            return absl::StrCat("'", text, "' is no version");
          });
}

void ReadAddresses(MapReader& in, ServingConfig* config) {
  const auto check = [](const std::string& address) {
    return AddressProblem(address, /*allow_schemes=*/false);
  };
  in.Text("listen", "listening address of the protocols; port 0: any free port", &config->listen,
          "host:port", Need::kOptional, check);
  config->listen_key = in.Where("listen");
  in.Text("metrics",
          "address of `/metrics`, `/healthz` and `/readyz`, by plain HTTP; none: not served",
          &config->metrics, "host:port", Need::kOptional, check);
  config->metrics_key = in.Where("metrics");
}

void ReadServers(MapReader& in, ServingConfig* config) {
  constexpr size_t kMaxServers = 1'024;
  std::vector<std::string> texts;
  in.TextOrTexts(
      "servers",
      "addresses of the programs `row-server`, in the order of their `--index`; for `rows: "
      "remote`",
      &texts, {0, kMaxServers}, Need::kOptional, "host:port");
  for (const std::string& text : texts) {
    for (const absl::string_view address : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
      config->servers.emplace_back(absl::StripAsciiWhitespace(address));
      const std::string problem = AddressProblem(config->servers.back(), /*allow_schemes=*/true);
      if (!problem.empty()) in.Error("servers", problem, "use host:port");
    }
  }
  config->servers_key = in.Where("servers");
  if (config->rows == ServingConfig::Rows::kRemote && config->servers.empty()) {
    in.Error("servers", "is missing, which rows: remote needs",
             "give the addresses of the row-servers");
  }
  in.Integer("hot_row_bytes",
             "bytes of memory for cached rows of `servers`, divided equally among threads; 0: no "
             "cache",
             &config->hot_row_bytes, 0, kMostBytes);
}

void ReadItems(MapReader& in, const std::string& folder, ServingConfig* config) {
  constexpr size_t kMaxFiles = 1'024;
  in.TextOrTexts("items",
                 "files of items to recommend, one row an item, in the format of the data; none: "
                 "`data.items`",
                 &config->items, {0, kMaxFiles}, Need::kOptional, "path of a file");
  for (std::string& path : config->items) path = PathIn(folder, path);
  in.Text("item_id",
          "column whose text names an item; none: the model's `data.items.id`, or the only id "
          "column of the item's tower",
          &config->item_id, "name of a column");
  in.Choice("item_precision",
            "precision of items' vectors that are searched; `int8`: the best ones are ranked in "
            "f32",
            &config->item_precision,
            {{"f32", VectorPrecision::kF32}, {"int8", VectorPrecision::kInt8}});
  in.Integer("item_graph_from",
             "number of items from which a graph of neighbours is searched, which may miss some "
             "items; 0: never",
             &config->item_graph_from, 0, UINT32_MAX);
  ReadModelFolder(
      in, "rank_model",
      "folder of the model that ranks the items of `:recommend`; none: they are not ranked", folder,
      &config->rank_model);
}

void ReadWork(MapReader& in, ServingConfig* config) {
  in.Integer("threads", "threads that predict; 0: one for each processor, 8 with `rows: mapped`",
             &config->threads, 0, 256);
  in.Choice("rows",
            "place of the rows; `memory`; `mapped`: their files, for models larger than the "
            "memory; `remote`: the processes of `servers`",
            &config->rows,
            {{"memory", ServingConfig::Rows::kMemory},
             {"mapped", ServingConfig::Rows::kMapped},
             {"remote", ServingConfig::Rows::kRemote}});
  in.Choice("row_precision",
            "precision of rows in memory; `f32`: as the model stores them; `int8`: with a scale "
            "for each row",
            &config->row_precision,
            {{"f32", VectorPrecision::kF32},
             {"bf16", VectorPrecision::kBf16},
             {"int8", VectorPrecision::kInt8}});
  if (config->rows == ServingConfig::Rows::kMapped &&
      config->row_precision != VectorPrecision::kF32) {
    in.Error("row_precision", "mapped rows have the precision of their files",
             "use f32, or rows: memory");
  }
  ReadServers(in, config);
  in.Integer("memory_budget",
             "maximum bytes of rows, dense weights and items, of both versions; more is not "
             "loaded; 0: no limit",
             &config->memory_budget, 0, kMostBytes);
  in.Integer("max_batch_rows", "maximum rows that a thread predicts at once",
             &config->max_batch_rows, 1, 65'535);
  in.Duration("batch_delay", "time that a free thread waits for further requests",
              &config->batch_delay, std::chrono::microseconds(0), milliseconds(100));
  in.Choice("bad_rows",
            "reaction to rows that training would refuse; `fail`: the request fails; `empty`: they "
            "have no prediction",
            &config->bad_rows,
            {{"fail", ServingConfig::BadRows::kFail}, {"empty", ServingConfig::BadRows::kEmpty}});
  in.Choice("unknown_columns",
            "reaction to labels and unknown columns in a request; `fail`: the request fails; "
            "`ignore`: they are not read",
            &config->unknown_columns,
            {{"fail", ServingConfig::UnknownColumns::kFail},
             {"ignore", ServingConfig::UnknownColumns::kIgnore}});
  in.Duration("max_age", "age of the newest version from which the server is not ready; 0s: any",
              &config->max_age, milliseconds(0), hours(24 * 7));
  in.Duration("poll", "time between looks for a new version", &config->poll, kShortest, kLongest);
  in.Bool("allow_plugins", "whether the model may load plug-ins, which are native code",
          &config->allow_plugins);
}

void ReadLimits(MapReader& in, ServingConfig* config) {
  in.Integer("max_rows", "maximum rows of a request", &config->max_rows, 1, 65'535);
  in.Integer("max_body_bytes", "maximum bytes of a request's body", &config->max_body_bytes, 1'024,
             uint64_t{1} << 30);
  in.Integer("max_connections",
             "maximum number of connections; a further one closes the one that waits longest",
             &config->max_connections, 1, 1'000'000);
  in.Duration("request_timeout", "time for a request to arrive, and for its response to be sent",
              &config->request_timeout, kShortest, kLongest);
  in.Duration("queue_timeout", "maximum wait for a thread; a longer expected wait is refused",
              &config->queue_timeout, kShortest, kLongest);
}

void ReadProtection(MapReader& in, const std::string& folder, ServingConfig* config) {
  in.Choice<Security>("security",
                      "protection of connections; `loopback`: plain HTTP on this machine; "
                      "`insecure`: plain HTTP on any network",
                      &config->security,
                      {{"loopback", Security::kLoopback},
                       {"tls", Security::kTls},
                       {"insecure", Security::kInsecure}});
  in.Map("tls", [&](MapReader& files) {
    const bool used = config->security == Security::kTls;
    const auto when = files.When(used, "set security: tls");
    const Need need = used ? Need::kRequired : Need::kOptional;
    constexpr char kPem[] = "path of a PEM file";
    ReadPath(files, "certificate", "certificate of the server, then intermediate ones", kPem,
             folder, need, &config->tls.certificate);
    ReadPath(files, "key", "key of the certificate, not encrypted", kPem, folder, need,
             &config->tls.key);
    ReadPath(files, "client_authority",
             "authority whose certificates clients must have; none: clients need none", kPem,
             folder, Need::kOptional, &config->tls.client_authority);
  });
  config->tls.where = in.Where("tls");
  ReadPath(in, "token_file",
           "file with tokens of clients, one in each line; none: no token is needed",
           "path of a file of mode 0600", folder, Need::kOptional, &config->token_file);
  config->token_key = in.Where("token_file");
  if (config->security == Security::kLoopback && IsOpenAddress(config->listen)) {
    in.Error("listen",
             absl::StrCat("'", config->listen,
                          "' is reachable from other machines, but serving.security is loopback"),
             "use a loopback address, serving.security: tls, or insecure in a network that you "
             "trust");
  }
}

void KeepKeys(absl::FunctionRef<bool(const std::string& key)> keeps, YamlNode* map) {
  std::erase_if(map->items, [&](const YamlNode& item) { return !keeps(item.key); });
}

// Reads the section `rpc` and cluster.token_file of a document.
StatusOr<RpcConfig> ReadConnections(YamlNode document, const std::string& folder) {
  KeepKeys([](const std::string& key) { return key == "rpc" || key == "cluster"; }, &document);
  if (YamlNode* const cluster = FindKey(document, "cluster"); cluster != nullptr) {
    KeepKeys([](const std::string& key) { return key == "token_file"; }, cluster);
  }
  ReadContext context(document);
  RpcConfig rpc;
  MapReader::Read(&document, "", &context, [&](MapReader& root) {
    ReadRpc(root, folder, &rpc);
    root.Map("cluster", [&](MapReader& in) { ReadRpcToken(in, folder, &rpc); });
  });
  if (context.diagnostics.ok()) CheckRpc(rpc, &context.diagnostics);
  SIMURGH_RETURN_IF_ERROR(context.diagnostics.status());
  return rpc;
}

}  // namespace

void ReadServing(MapReader& root, const std::string& folder, ServingConfig* config) {
  root.Map(kSection, [&](MapReader& in) {
    ReadModelFolder(in, "model",
                    "folder of the model to serve, the `checkpoint.directory` of its training",
                    folder, &config->model);
    in.Text("name", "name of the model in URLs; none: that of the folder", &config->name, "text");
    ReadVersion(in, config);
    ReadAddresses(in, config);
    ReadItems(in, folder, config);
    ReadWork(in, config);
    ReadLimits(in, config);
    ReadProtection(in, folder, config);
  });
}

uint32_t ThreadsOf(const ServingConfig& config) {
  // Threads that read mapped rows wait for the disk together.
  const uint32_t for_each = config.rows == ServingConfig::Rows::kMapped ? 8 : 1;
  return config.threads > 0 ? config.threads
                            : for_each * std::max(1U, std::thread::hardware_concurrency());
}

StatusOr<ServingConfig> LoadServingConfig(const std::string& path,
                                          const std::vector<std::string>& overrides) {
  std::string text;
  if (!path.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(text, ReadConfigFile(path));
  }
  SIMURGH_ASSIGN_OR_RETURN(
      YamlNode document, ParseYaml(text, [&](int line) { return absl::StrCat(path, ":", line); }));
  ServingConfig config;
  for (const std::string& one : overrides) {
    const bool is_own = one.starts_with("serving.") || one.starts_with("rpc.") ||
                        one.starts_with("cluster.token_file=");
    if (!is_own) {
      config.model_overrides.push_back(one);
      continue;
    }
    SIMURGH_RETURN_IF_ERROR(ApplyOverride(one, &document));
  }
  // Other sections may name files that this host does not have.
  std::set<std::string> others;
  for (const KnownKey& key : KnownKeys()) others.insert(key.key.substr(0, key.key.find('.')));
  others.erase(kSection);
  const YamlNode all = document;
  KeepKeys([&](const std::string& key) { return !others.contains(key); }, &document);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  ReadContext context(document);
  MapReader::Read(&document, "", &context,
                  [&](MapReader& root) { ReadServing(root, folder, &config); });
  SIMURGH_RETURN_IF_ERROR(context.diagnostics.status());
  if (!config.servers.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(config.rpc, ReadConnections(all, folder));
  }
  return config;
}

}  // namespace simurgh
