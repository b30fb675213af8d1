#include "services/simurgh/kubernetes_objects.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "base/hash.h"
#include "config/uri.h"

namespace simurgh {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRpcPort = 7401;
constexpr int kMetricsPort = 7501;
constexpr int kHttpPort = 8000;
constexpr int kUser = 10001;
constexpr char kConfigFolder[] = "/etc/simurgh";
constexpr char kDataFolder[] = "/data";
constexpr char kModelFolder[] = "/models";
constexpr char kTlsFolder[] = "/tls";
constexpr char kTokenFile[] = "/run/simurgh/token";
constexpr char kApp[] = "app.kubernetes.io/name";
constexpr char kPartOf[] = "app.kubernetes.io/part-of";

// Rounds up, so that a pod never has less.
std::string SizeText(uint64_t bytes) {
  constexpr uint64_t kMib = 1 << 20;
  const uint64_t mib = std::max<uint64_t>(1, (bytes + kMib - 1) / kMib);
  return mib % 1024 == 0 ? absl::StrCat(mib / 1024, "Gi") : absl::StrCat(mib, "Mi");
}

// A name of RFC 1123 that leaves room for "-embedding-worker-1023" in a label of 63 characters.
Status CheckName(const std::string& name) {
  constexpr size_t kMost = 40;
  const auto is_plain = [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(c));
  };
  const bool is_label = !name.empty() && name.size() <= kMost &&
                        absl::ascii_islower(static_cast<unsigned char>(name.front())) &&
                        is_plain(name.back()) &&
                        std::ranges::all_of(name, [&](char c) { return is_plain(c) || c == '-'; });
  if (is_label) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' cannot be the name of objects; give another by --name: at most ",
                   kMost, " lower-case letters, digits and '-', with a letter first"));
}

// The daemons of one kind.
struct Kind {
  const char* program;
  const char* section;  // Key of their instances.
  uint32_t count;
  uint64_t memory;
};

class Objects {
 public:
  Objects(const ClusterConfig& config, const PodOptions& options)
      : config_(config), options_(options) {}

  StatusOr<std::vector<Json>> Make() {
    SIMURGH_RETURN_IF_ERROR(CheckName(options_.name));
    SIMURGH_RETURN_IF_ERROR(SetArguments());
    const Kind servers = {"embedding-ps", "embedding_ps", options_.servers, options_.server_memory};
    const Kind workers = {"embedding-worker", "embedding_worker", options_.workers,
                          options_.worker_memory};
    const Kind ranks = {"nn-worker", "nn_worker", options_.ranks, options_.rank_memory};
    if (!options_.token.empty()) {
      all_.push_back({{"apiVersion", "v1"},
                      {"kind", "Secret"},
                      {"metadata", Metadata(TokenSecret())},
                      {"immutable", true},
                      {"stringData", {{"token", options_.token}}}});
    }
    all_.push_back({{"apiVersion", "v1"},
                    {"kind", "ConfigMap"},
                    {"metadata", Metadata(NameOf("config"))},
                    {"data", {{"cluster.yaml", config_.source.text}}}});
    if (!is_in_bucket()) AddClaim();
    AddPolicy();
    for (const Kind& kind : {servers, workers, ranks}) SetInstances(kind);
    for (const Kind& kind : {servers, workers, ranks}) {
      AddService(kind);
      const bool is_job = kind.section == ranks.section && config_.training.epochs > 0;
      is_job ? AddJob(kind) : AddStatefulSet(kind);
      if (kind.section != ranks.section) AddDisruptionBudget(kind);
    }
    if (options_.serves) AddServing();
    return std::move(all_);
  }

 private:
  std::string NameOf(const char* part) const { return absl::StrCat(options_.name, "-", part); }
  std::string TokenSecret() const { return NameOf("token"); }
  Json Labels(const std::string& app = "") const {
    Json labels = {{kPartOf, options_.name}};
    if (!app.empty()) labels[kApp] = app;
    return labels;
  }
  Json Metadata(const std::string& name) const { return {{"name", name}, {"labels", Labels()}}; }
  bool is_in_bucket() const { return !options_.bucket.empty(); }
  std::string ModelPath() const {
    return is_in_bucket() ? options_.bucket : absl::StrCat(kModelFolder, "/", options_.name);
  }

  // Sets the overrides that all daemons get, but for their instances.
  Status SetArguments() {
    for (const std::string& one : config_.source.overrides) Set(one);
    Set(absl::StrCat("checkpoint.directory=", ModelPath()));
    Set(absl::StrCat("cluster.token_file=", kTokenFile));
    if (options_.tls_secret.empty()) {
      // The network policy keeps others out.
      Set("rpc.security=insecure");
    } else {
      Set(
          absl::StrFormat("rpc={security: tls, tls: {certificate: %s/tls.crt, key: %s/tls.key, "
                          "authority: %s/ca.crt}}",
                          kTlsFolder, kTlsFolder, kTlsFolder));
    }
    Set("loaders.instances=[]");
    if (options_.has_gpus) Set("nn_worker.device=cuda");
    for (const auto& [key, files] :
         {std::pair("data.train", &config_.data.train), std::pair("data.test", &config_.data.test),
          std::pair("data.validation", &config_.data.validation),
          std::pair("data.replay", &config_.data.replay),
          std::pair("data.items.files", &config_.data.items.files)}) {
      SIMURGH_RETURN_IF_ERROR(SetFiles(key, *files));
    }
    return absl::OkStatus();
  }

  // The claim of the data holds the folder of the configuration.
  Status SetFiles(const char* key, const std::vector<std::string>& files) {
    const std::string folder =
        std::filesystem::path(config_.source.path).parent_path().string() + "/";
    std::vector<std::string> moved;
    bool is_moved = false;
    for (const std::string& written : files) {
      if (IsUri(written)) {
        moved.push_back(YamlText(written));
        continue;
      }
      const std::string file = std::filesystem::absolute(written).lexically_normal().string();
      if (!file.starts_with(folder)) {
        moved.push_back(YamlText(file));
        continue;
      }
      if (options_.data_claim.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(
            key, ": pods do not see '", file, "'; copy the folder of the configuration to a ",
            "volume, and name its claim by --data CLAIM"));
      }
      is_moved = true;
      moved.push_back(YamlText(absl::StrCat(kDataFolder, "/", file.substr(folder.size()))));
    }
    if (is_moved) Set(absl::StrCat(key, "=[", absl::StrJoin(moved, ", "), "]"));
    return absl::OkStatus();
  }

  void Set(std::string setting) { settings_.push_back(std::move(setting)); }

  void SetInstances(const Kind& kind) {
    std::vector<std::string> instances;
    for (uint32_t i = 0; i < kind.count; ++i) {
      const std::string host =
          absl::StrCat(NameOf(kind.program), "-", i, ".", NameOf(kind.program));
      instances.push_back(absl::StrFormat(
          "{address: '%s:%d', listen: '0.0.0.0:%d', metrics: '%s:%d', metrics_listen: "
          "'0.0.0.0:%d'}",
          host, kRpcPort, kRpcPort, host, kMetricsPort, kMetricsPort));
    }
    Set(absl::StrCat(kind.section, ".instances=[", absl::StrJoin(instances, ", "), "]"));
  }

  void AddClaim() {
    all_.push_back(
        {{"apiVersion", "v1"},
         {"kind", "PersistentVolumeClaim"},
         {"metadata", Metadata(NameOf("models"))},
         {"spec",
          {{"accessModes", {"ReadWriteMany"}},
           {"resources", {{"requests", {{"storage", SizeText(options_.model_bytes)}}}}}}}});
  }

  // Only daemons call daemons. Metrics and predictions are for everyone. Calls of pods to others,
  // such as an object store, are not limited.
  void AddPolicy() {
    const Json ours = {{"matchLabels", Labels()}};
    Json open = Json::array({{{"port", kMetricsPort}}});
    if (options_.serves) open.push_back({{"port", kHttpPort}});
    all_.push_back({{"apiVersion", "networking.k8s.io/v1"},
                    {"kind", "NetworkPolicy"},
                    {"metadata", Metadata(options_.name)},
                    {"spec",
                     {{"podSelector", ours},
                      {"policyTypes", {"Ingress"}},
                      {"ingress", Json::array({{{"from", Json::array({{{"podSelector", ours}}})},
                                                {"ports", Json::array({{{"port", kRpcPort}}})}},
                                               {{"ports", open}}})}}}});
  }

  // Names of the pods. Daemons look each other up before they are ready.
  void AddService(const Kind& kind) {
    all_.push_back({{"apiVersion", "v1"},
                    {"kind", "Service"},
                    {"metadata", Metadata(NameOf(kind.program))},
                    {"spec",
                     {{"clusterIP", "None"},
                      {"publishNotReadyAddresses", true},
                      {"selector", Labels(kind.program)},
                      {"ports", Json::array({{{"name", "rpc"}, {"port", kRpcPort}},
                                             {{"name", "metrics"}, {"port", kMetricsPort}}})}}}});
  }

  // Training needs all servers and workers.
  void AddDisruptionBudget(const Kind& kind) {
    all_.push_back(
        {{"apiVersion", "policy/v1"},
         {"kind", "PodDisruptionBudget"},
         {"metadata", Metadata(NameOf(kind.program))},
         {"spec", {{"maxUnavailable", 0}, {"selector", {{"matchLabels", Labels(kind.program)}}}}}});
  }

  static Json Restricted() {
    return {{"allowPrivilegeEscalation", false},
            {"readOnlyRootFilesystem", true},
            {"capabilities", {{"drop", {"ALL"}}}}};
  }

  static Json Probe(const char* path, const char* port, int period, int failures) {
    return {{"httpGet", {{"path", path}, {"port", port}}},
            {"periodSeconds", period},
            {"failureThreshold", failures}};
  }

  // The template of pods. index: what the shell makes the daemon's index of.
  Json Pod(const Kind& kind, const char* restart, const std::string& index) const {
    Json mounts =
        Json::array({{{"name", "config"}, {"mountPath", kConfigFolder}, {"readOnly", true}},
                     {{"name", "run"}, {"mountPath", "/run/simurgh"}},
                     {{"name", "tmp"}, {"mountPath", "/tmp"}}});
    Json volumes =
        Json::array({{{"name", "config"}, {"configMap", {{"name", NameOf("config")}}}},
                     {{"name", "secret"}, {"secret", {{"secretName", TokenSecret()}}}},
                     {{"name", "run"}, {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", "1Mi"}}}},
                     {{"name", "tmp"}, {"emptyDir", Json::object()}}});
    if (!is_in_bucket()) {
      mounts.push_back({{"name", "models"}, {"mountPath", kModelFolder}});
      volumes.push_back(
          {{"name", "models"}, {"persistentVolumeClaim", {{"claimName", NameOf("models")}}}});
    }
    const std::string& cold_rows = config_.embedding_ps.cold_directory;
    if (!cold_rows.empty() && kind.section == std::string_view("embedding_ps")) {
      // A disk of the node: the rows end with the process.
      mounts.push_back({{"name", "cold-rows"}, {"mountPath", cold_rows}});
      volumes.push_back({{"name", "cold-rows"}, {"emptyDir", Json::object()}});
    }
    const auto add = [&](const char* name, const char* path, Json volume) {
      mounts.push_back({{"name", name}, {"mountPath", path}, {"readOnly", true}});
      volume["name"] = name;
      volumes.push_back(std::move(volume));
    };
    const bool is_rank = kind.section == std::string_view("nn_worker");
    if (is_rank && !options_.data_claim.empty()) {
      add("data", kDataFolder,
          {{"persistentVolumeClaim", {{"claimName", options_.data_claim}, {"readOnly", true}}}});
    }
    if (!options_.tls_secret.empty()) {
      add("tls", kTlsFolder, {{"secret", {{"secretName", options_.tls_secret}}}});
    }
    Json limits = {{"memory", SizeText(kind.memory)}};
    if (is_rank && options_.has_gpus) limits["nvidia.com/gpu"] = 1;
    Json command = {"sh",         "-c",       absl::StrCat("exec \"$0\" \"$@\" --index ", index),
                    kind.program, "--config", absl::StrCat(kConfigFolder, "/cluster.yaml")};
    for (const std::string& setting : settings_) {
      command.push_back("--set");
      command.push_back(setting);
    }
    Json pod = {
        {"metadata",
         {{"labels", Labels(kind.program)},
          // A change of the file or the settings starts the pods again.
          {"annotations", {{"simurgh/configuration", Digest()}}}}},
        {"spec",
         {{"restartPolicy", restart},
          {"terminationGracePeriodSeconds", 120},
          {"securityContext",
           {{"runAsNonRoot", true},
            {"runAsUser", kUser},
            {"runAsGroup", kUser},
            {"fsGroup", kUser},
            {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
          // Daemons refuse a token that its group can read, as in a mounted secret.
          {"initContainers",
           Json::array(
               {{{"name", "token"},
                 {"image", options_.image},
                 {"workingDir", "/"},
                 {"command",
                  {"sh", "-c", absl::StrCat("umask 077 && cat /secret/token > ", kTokenFile)}},
                 {"securityContext", Restricted()},
                 {"resources",
                  {{"requests", {{"cpu", "10m"}, {"memory", "16Mi"}}},
                   {"limits", {{"memory", "64Mi"}}}}},
                 {"volumeMounts",
                  Json::array({{{"name", "secret"}, {"mountPath", "/secret"}, {"readOnly", true}},
                               {{"name", "run"}, {"mountPath", "/run/simurgh"}}})}}})},
          {"containers",
           Json::array(
               {{{"name", kind.program},
                 {"image", options_.image},
                 {"workingDir", "/"},
                 {"command", command},
                 {"securityContext", Restricted()},
                 {"resources",
                  {{"requests", {{"cpu", "1"}, {"memory", SizeText(kind.memory)}}},
                   {"limits", limits}}},
                 {"ports", Json::array({{{"name", "rpc"}, {"containerPort", kRpcPort}},
                                        {{"name", "metrics"}, {"containerPort", kMetricsPort}}})},
                 {"livenessProbe", Probe("/healthz", "metrics", 10, 6)},
                 {"readinessProbe", Probe("/readyz", "metrics", 5, 3)},
                 {"volumeMounts", mounts}}})},
          {"volumes", volumes}}}};
    Json& spec = pod["spec"];
    if (!options_.service_account.empty()) spec["serviceAccountName"] = options_.service_account;
    if (is_in_bucket()) {
      Json& container = spec["containers"][0];
      container["workingDir"] = "/tmp";  // For bad rows, which are not in the bucket.
      // A service account needs no Secret.
      container["envFrom"] =
          Json::array({{{"secretRef", {{"name", NameOf("s3")}, {"optional", true}}}}});
    }
    return pod;
  }

  std::string Digest() const {
    return absl::StrFormat("%016x", HashBytes(absl::StrCat(config_.source.text, "\n",
                                                           absl::StrJoin(settings_, "\n"))));
  }

  void AddStatefulSet(const Kind& kind) {
    all_.push_back({{"apiVersion", "apps/v1"},
                    {"kind", "StatefulSet"},
                    {"metadata", Metadata(NameOf(kind.program))},
                    {"spec",
                     {{"serviceName", NameOf(kind.program)},
                      {"replicas", kind.count},
                      {"podManagementPolicy", "Parallel"},
                      {"selector", {{"matchLabels", Labels(kind.program)}}},
                      {"template", Pod(kind, "Always", "\"${HOSTNAME##*-}\"")}}}});
  }

  // It completes when training has ended. A rank that fails is started again, and continues from
  // the last checkpoint. An evicted rank stops all others, and a lost process ends all ranks: these
  // ends are no failures of the Job.
  void AddJob(const Kind& kind) {
    constexpr int kMostFailures = 20;
    constexpr int kBadConfiguration = 2;  // A restart does not mend it.
    constexpr int kStartAgain = 4;
    Json pod = Pod(kind, "Never", "\"$JOB_COMPLETION_INDEX\"");
    pod["spec"]["subdomain"] = NameOf(kind.program);
    pod["spec"]["containers"][0]["command"].push_back("--fail-if-stopped");
    const auto on_code = [&](const char* action, int code) -> Json {
      return {{"action", action},
              {"onExitCodes",
               {{"containerName", kind.program}, {"operator", "In"}, {"values", {code}}}}};
    };
    const Json on_eviction = {
        {"action", "Ignore"},
        {"onPodConditions", Json::array({{{"type", "DisruptionTarget"}, {"status", "True"}}})}};
    all_.push_back({{"apiVersion", "batch/v1"},
                    {"kind", "Job"},
                    {"metadata", Metadata(NameOf(kind.program))},
                    {"spec",
                     {{"completionMode", "Indexed"},
                      {"completions", kind.count},
                      {"parallelism", kind.count},
                      {"backoffLimit", kMostFailures},
                      {"podFailurePolicy",
                       {{"rules", Json::array({on_code("FailJob", kBadConfiguration),
                                               on_code("Ignore", kStartAgain), on_eviction})}}},
                      {"template", pod}}}});
  }

  // Serves the best version of the model, on as many pods as their CPUs need.
  void AddServing() {
    constexpr char kServe[] = "serve";
    const std::string name = NameOf(kServe);
    const Kind kind = {kServe, "", 1, options_.server_memory * options_.servers};
    Json pod = Pod(kind, "Always", "");
    Json& spec = pod["spec"];
    spec.erase("initContainers");
    Json& container = spec["containers"][0];
    container["command"] = {"simurgh",  "serve",
                            "--model",  ModelPath(),
                            "--listen", absl::StrCat("0.0.0.0:", kHttpPort),
                            "--set",    "serving.security=insecure"};
    container["ports"] = Json::array({{{"name", "http"}, {"containerPort", kHttpPort}}});
    container["livenessProbe"] = Probe("/v2/health/live", "http", 10, 6);
    container["readinessProbe"] = Probe("/v2/health/ready", "http", 5, 3);
    const auto is_needless = [](const Json& one) {
      return one["name"] == "config" || one["name"] == "secret" || one["name"] == "run" ||
             one["name"] == "tls";
    };
    for (Json* list : {&container["volumeMounts"], &spec["volumes"]}) {
      list->erase(std::remove_if(list->begin(), list->end(), is_needless), list->end());
    }
    all_.push_back(
        {{"apiVersion", "apps/v1"},
         {"kind", "Deployment"},
         {"metadata", Metadata(name)},
         {"spec", {{"selector", {{"matchLabels", Labels(kServe)}}}, {"template", pod}}}});
    all_.push_back({{"apiVersion", "v1"},
                    {"kind", "Service"},
                    {"metadata", Metadata(name)},
                    {"spec",
                     {{"selector", Labels(kServe)},
                      {"ports", Json::array({{{"name", "http"}, {"port", kHttpPort}}})}}}});
    all_.push_back(
        {{"apiVersion", "autoscaling/v2"},
         {"kind", "HorizontalPodAutoscaler"},
         {"metadata", Metadata(name)},
         {"spec",
          {{"scaleTargetRef", {{"apiVersion", "apps/v1"}, {"kind", "Deployment"}, {"name", name}}},
           {"minReplicas", 1},
           {"maxReplicas", 8},
           {"metrics",
            Json::array(
                {{{"type", "Resource"},
                  {"resource",
                   {{"name", "cpu"},
                    {"target", {{"type", "Utilization"}, {"averageUtilization", 70}}}}}}})}}}});
  }

  const ClusterConfig& config_;
  const PodOptions& options_;
  std::vector<std::string> settings_;
  std::vector<Json> all_;
};

// Returns whether a literal block of YAML can hold the text.
bool FitsBlock(std::string_view text) {
  if (text.size() < 2 || text.back() != '\n' || text[text.size() - 2] == '\n') return false;
  if (text.front() == ' ' || text.front() == '\n') return false;
  return std::ranges::all_of(text, [](char c) {
    return c == '\n' || (absl::ascii_isprint(static_cast<unsigned char>(c)));
  });
}

// Appends a value after "key:" or "-".
void AppendYaml(const Json& value, size_t indent, bool in_list, std::string& out) {
  const std::string space(indent, ' ');
  if (value.is_string() && FitsBlock(value.get_ref<const std::string&>())) {
    out += " |\n";
    for (const absl::string_view line :
         absl::StrSplit(absl::StripSuffix(value.get_ref<const std::string&>(), "\n"), '\n')) {
      if (!line.empty()) absl::StrAppend(&out, space, line);
      out += "\n";
    }
    return;
  }
  if (!value.is_structured() || value.empty()) {
    absl::StrAppend(&out, " ", value.dump(), "\n");
    return;
  }
  bool is_first = true;
  const auto begin = [&] {
    if (is_first && in_list) {
      out.push_back(' ');
    } else {
      if (is_first) out.push_back('\n');
      out += space;
    }
    is_first = false;
  };
  if (value.is_object()) {
    for (const auto& [key, part] : value.items()) {
      begin();
      absl::StrAppend(&out, key, ":");
      AppendYaml(part, indent + 2, false, out);
    }
    return;
  }
  for (const Json& part : value) {
    begin();
    out += "-";
    AppendYaml(part, indent + 2, true, out);
  }
}

}  // namespace

StatusOr<std::vector<nlohmann::ordered_json>> KubernetesObjects(const ClusterConfig& config,
                                                                const PodOptions& options) {
  return Objects(config, options).Make();
}

std::string YamlOf(const std::vector<nlohmann::ordered_json>& objects) {
  std::string out;
  for (const Json& object : objects) {
    out += "---";
    AppendYaml(object, 0, false, out);
  }
  return out;
}

}  // namespace simurgh
