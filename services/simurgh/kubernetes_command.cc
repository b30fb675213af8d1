// simurgh kubernetes: prints the objects that train a configuration on Kubernetes.

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "base/version.h"
#include "config/uri.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/kubernetes_objects.h"
#include "services/simurgh/plan.h"
#include "telemetry/logging.h"

namespace simurgh {
namespace {

constexpr char kKubernetesNotes[] =
    R"(Prints all objects that train CONFIG. The file is a ConfigMap, servers and workers are
StatefulSets, and ranks are a Job. The Job completes when training has ended. Without an end
(training.epochs: 0), ranks are a StatefulSet, too. Numbers of daemons are those of the file's
instances. Addresses become names of pods.

With --ids, memory and disk are those of simurgh plan. Without it they are guessed.

Copy the folder of CONFIG to the volume of --data: ranks see it at /data. Files of data elsewhere
must be in the image. That of scripts/build.sh has no module for data in Parquet and object stores.
The model is saved in the claim NAME-models. Servers and ranks share it, so its storage class must
allow ReadWriteMany.

With --with-bucket, or if checkpoint.directory is a URI, the model is in that bucket, and there is
no claim. Pods get the variables of the Secret NAME-s3, if it exists: AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL. Or give --service-account NAME, of an
account that may use the bucket.

The token is that of cluster.token_file, or a new one. To apply changes later, keep it: give
--keep-token. A Job cannot change: delete it before applying a new configuration.

Examples:
  simurgh kubernetes clicks.yaml --data clicks-files --ids 100M | kubectl apply --filename -
  simurgh kubernetes clicks.yaml --data clicks-files --servers 8 --gpu --serve --keep-token
  simurgh kubernetes clicks.yaml --data clicks-files --with-bucket s3://models/clicks
  kubectl logs --follow job/clicks-nn-worker

Exit codes:
  0  printed
  2  bad arguments or configuration
  3  the data is damaged, or memory is short
)";

constexpr uint64_t kMib = 1 << 20;
constexpr uint64_t kGib = uint64_t{1} << 30;

// Returns a token of 256 random bits.
std::string NewToken() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 8; ++i) absl::StrAppendFormat(&token, "%08x", random());
  return token;
}

StatusOr<std::string> TokenOf(const ClusterConfig& config) {
  if (config.rpc.token_file.empty()) return NewToken();
  std::ifstream file(config.rpc.token_file);
  std::string token((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  absl::StripAsciiWhitespace(&token);
  if (!token.empty()) return token;
  return absl::InvalidArgumentError(
      absl::StrCat(config.rpc.token_key, ": '", config.rpc.token_file,
                   "' is empty; write a token into it, or give --keep-token if the cluster has the "
                   "secret"));
}

// Sets memory and disk by the plan of the ids.
Status SetSizes(const ConfigArguments& arguments, ClusterConfig config, const PlannedIds& ids,
                PodOptions& options) {
  constexpr double kSpare = 1.15;
  constexpr uint64_t kLeastMemory = 256 * kMib;
  if (ids.empty()) {
    options.server_memory = options.rank_memory = 2 * kGib;
    options.worker_memory = kGib;
    options.model_bytes = 10 * kGib;
    std::cerr << "simurgh: memory and disk are guessed; --ids N gives those of simurgh plan\n";
    return absl::OkStatus();
  }
  config.embedding_ps.instances.resize(options.servers);
  config.embedding_worker.instances.resize(options.workers);
  config.nn_worker.instances.resize(options.ranks);
  const Status data = arguments.Load(InputFiles::kCheck).status();
  SIMURGH_ASSIGN_OR_RETURN(const auto plan, PlanOf(config, data, ids, /*server_memory=*/0));
  const auto& memory = plan["memory_of_each_embedding_ps"];
  const auto spare = [](double bytes) { return static_cast<uint64_t>(kSpare * bytes); };
  options.server_memory = std::max(
      kLeastMemory,
      spare(memory["total"].get<double>() + memory["more_during_checkpoint"].get<double>()));
  options.worker_memory = config.embedding_worker.forward_buffer_bytes + kGib;
  options.rank_memory = spare(8 * plan["checkpoint"]["dense"].get<double>()) + 2 * kGib;
  // The kept checkpoints, the best one, and the one that is written.
  options.model_bytes =
      spare((config.checkpoint.keep + 2.0) * plan["checkpoint"]["total"].get<double>()) +
      100 * kMib;
  for (const auto& note : plan["notes"]) {
    std::cerr << "simurgh: note: " << note.get<std::string>() << "\n";
  }
  return absl::OkStatus();
}

// Prints data that the project's image cannot read.
void NoteUnreadData(const DataConfig& data) {
  for (const auto& [key, files] :
       {std::pair("data.train", &data.train), std::pair("data.test", &data.test),
        std::pair("data.validation", &data.validation), std::pair("data.replay", &data.replay),
        std::pair("data.items.files", &data.items.files)}) {
    const auto found = std::ranges::find_if(
        *files, [&](const std::string& file) { return IsArrow(data) || IsUri(file); });
    if (found == files->end()) continue;
    std::cerr
        << "simurgh: note: " << key << ": '" << *found
        << "' needs libsimurgh_arrow.so, which the image of scripts/build.sh lacks. Add it to "
           "an image and give --image, or put CSV, JSON or libsvm files into the volume of "
           "--data\n";
    return;
  }
}

// Returns the name of objects for the name of a cluster.
std::string ObjectName(const std::string& cluster) {
  std::string name = absl::AsciiStrToLower(cluster);
  std::ranges::replace(name, '_', '-');
  return name;
}

}  // namespace

ExitCode RunKubernetesCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  PodOptions pods{.servers = 0, .workers = 0, .ranks = 0};
  std::vector<std::string> ids;
  bool keeps_token = false;
  bool has_gpus = false;
  po::options_description options("Options");
  options.add_options()(
      "image", po::value(&pods.image)->value_name("IMAGE"),
      "run this image (default: simurgh:VERSION); scripts/build.sh image makes it")(
      "name", po::value(&pods.name)->value_name("NAME"),
      "begin the objects' names with this (default: cluster.name)")(
      "ids", po::value(&ids)->value_name("N|TABLE=N")->composing(),
      "number of distinct ids, for memory and disk, as of simurgh plan; may repeat")(
      "servers", po::value(&pods.servers)->value_name("N"),
      "number of embedding-ps (default: those of CONFIG)")(
      "workers", po::value(&pods.workers)->value_name("N"),
      "number of embedding-workers (default: those of CONFIG)")(
      "ranks", po::value(&pods.ranks)->value_name("N"),
      "number of nn-workers (default: those of CONFIG)")(
      "gpu", po::bool_switch(&has_gpus),
      "give each rank a GPU (default: with nn_worker.device: cuda)")(
      "data", po::value(&pods.data_claim)->value_name("CLAIM"),
      "claim that holds the files of the data")(
      "tls", po::value(&pods.tls_secret)->value_name("SECRET"),
      "secret with tls.crt, tls.key and ca.crt for calls between daemons (default: without "
      "encryption, and a policy that keeps other pods out)")(
      "with-bucket", po::value(&pods.bucket)->value_name("URI"),
      "save the model in this folder of a bucket, as s3://BUCKET/PREFIX (default: in a claim)")(
      "service-account", po::value(&pods.service_account)->value_name("NAME"),
      "run all pods with this account (default: that of the namespace)")(
      "keep-token", po::bool_switch(&keeps_token), "print no token; its secret exists")(
      "serve", po::bool_switch(&pods.serves),
      "also serve the model's best version, or without one the newest");
  const auto run = [&](const ConfigArguments& arguments) -> StatusOr<ExitCode> {
    SIMURGH_RETURN_IF_ERROR(InitLogging("simurgh", "error"));
    SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig config, arguments.Load());
    PlannedIds planned;
    for (const std::string& one : ids) SIMURGH_RETURN_IF_ERROR(planned.Add(one));
    if (pods.bucket.empty() && IsUri(config.checkpoint.directory)) {
      pods.bucket = config.checkpoint.directory;
    }
    if (!pods.bucket.empty()) {
      const Status valid = ParseBucketPath(pods.bucket).status();
      if (!valid.ok()) return OptionProblem(absl::StrCat("--with-bucket: ", valid.message()));
      pods.bucket = BucketPath(pods.bucket);
    }
    if (pods.image.empty()) pods.image = absl::StrCat("simurgh:", Version());
    if (pods.name.empty()) pods.name = ObjectName(config.name);
    pods.has_gpus = has_gpus || config.nn_worker.device == ComputeDevice::kCuda;
    const auto set_count = [](uint32_t& count, const auto& instances) {
      if (count == 0) count = static_cast<uint32_t>(std::max<size_t>(1, instances.size()));
    };
    set_count(pods.servers, config.embedding_ps.instances);
    set_count(pods.workers, config.embedding_worker.instances);
    set_count(pods.ranks, config.nn_worker.instances);
    if (config.rpc.security == Security::kTls && pods.tls_secret.empty()) {
      return absl::InvalidArgumentError(
          "rpc.security: tls: pods need the certificates; put them in a secret, and name it by "
          "--tls SECRET, or give --set rpc.security=insecure");
    }
    if (!keeps_token) {
      SIMURGH_ASSIGN_OR_RETURN(pods.token, TokenOf(config));
    }
    NoteUnreadData(config.data);
    SIMURGH_RETURN_IF_ERROR(SetSizes(arguments, config, planned, pods));
    SIMURGH_ASSIGN_OR_RETURN(const auto objects, KubernetesObjects(config, pods));
    std::cout << YamlOf(objects);
    return ExitCode::kOk;
  };
  return RunConfigCommand(argc, argv,
                          {"kubernetes: prints the objects that train on Kubernetes",
                           kKubernetesUsage, kKubernetesNotes},
                          options, run);
}

}  // namespace simurgh
