#include "bench/micro/worker/cluster.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <random>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "bench/datagen/generator.h"

namespace simurgh::bench {
namespace {

// Holds free ports until it is destroyed. If another process then takes one before its use, the
// daemon reports it.
class FreePorts {
 public:
  FreePorts() = default;
  FreePorts(const FreePorts&) = delete;
  FreePorts& operator=(const FreePorts&) = delete;
  ~FreePorts() {
    for (const int socket : sockets_) ::close(socket);
  }

  // 0 where there is none.
  uint16_t Take() {
    sockets_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof(address);
    if (::bind(sockets_.back(), raw, length) != 0) return 0;
    if (::getsockname(sockets_.back(), raw, &length) != 0) return 0;
    return ntohs(address.sin_port);
  }

 private:
  std::vector<int> sockets_;
};

// More than any row can be used again from.
constexpr uint64_t kRowCacheBytes = uint64_t{256} << 20;

Status WriteConfig(const Folder& folder, const WorkerCluster::Setup& setup) {
  FreePorts ports;
  const auto address = [&](const std::string& name) {
    if (setup.transport == "tcp") return absl::StrCat("127.0.0.1:", ports.Take());
    return absl::StrCat(setup.transport, "://", (folder.path() / name).string());
  };
  std::vector<std::string> tables;
  std::vector<std::string> features;
  for (size_t f = 1; f <= Generator::kFeatures; ++f) {
    tables.push_back(absl::StrCat("C", f));
    features.push_back(absl::StrCat("{name: C", f, "}"));
  }
  std::ofstream(folder.path() / "none.tsv").flush();  // Required, but not read.
  std::random_device random;
  std::ofstream token(folder.path() / "token");
  for (int i = 0; i < 8; ++i) token << absl::StrCat(absl::Hex(random(), absl::kZeroPad8));
  token.close();
  std::filesystem::permissions(folder.path() / "token", std::filesystem::perms(0600));
  std::ofstream file(folder.path() / "cluster.yaml");
  file << "cluster: {name: bench, seed: 1, token_file: token}\n"
       << "embedding_ps: {partitions: 1, instances: [{address: \"" << address("ps0")
       << "\"}, {address: \"" << address("ps1") << "\"}]}\n"
       << "embedding_worker: {row_precision: " << setup.row_precision
       << ", row_gradient_precision: " << setup.row_precision
       << ", row_cache_bytes: " << (setup.row_age == 0 ? 0 : kRowCacheBytes)
       << ", instances: [{address: \"" << address("worker")
       << "\", metrics: \"127.0.0.1:" << ports.Take() << "\"}]}\n"
       << "nn_worker: {instances: [{}]}\n"
       << "tables: [{names: [" << absl::StrJoin(tables, ", ") << "], dim: " << setup.dim
       << ", optimizer: {kind: adagrad}}]\n"
       << "features: [" << absl::StrJoin(features, ", ") << "]\n"
       << "data: {format: criteo, train: [none.tsv]}\n"
       << "training: {embedding_precision: " << setup.precision
       << ", gradient_precision: " << setup.precision << ", staleness: " << setup.row_age + 1
       << ", row_age_steps: " << setup.row_age << "}\n"
       << "model: {towers: [{name: top, input: embeddings, layers: [{linear: 1}]}]}\n";
  file.close();
  if (!file) return absl::UnavailableError("the bench's cluster file cannot be written");
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<WorkerCluster>> WorkerCluster::Start(const std::string& programs,
                                                              const Setup& setup) {
  std::unique_ptr<WorkerCluster> cluster(new WorkerCluster);
  SIMURGH_RETURN_IF_ERROR(WriteConfig(cluster->folder_, setup));
  const std::string path = (cluster->folder_.path() / "cluster.yaml").string();
  SIMURGH_ASSIGN_OR_RETURN(cluster->config_, LoadClusterConfig(path, {}));
  constexpr std::array<std::pair<const char*, const char*>, 3> kDaemons = {
      {{"embedding-ps", "0"}, {"embedding-ps", "1"}, {"embedding-worker", "0"}}};
  for (const auto& [daemon, index] : kDaemons) {
    SIMURGH_ASSIGN_OR_RETURN(Process process, Process::Start(absl::StrCat(programs, "/", daemon),
                                                             {"--config", path, "--index", index,
                                                              "--log-level", "error"}));
    cluster->processes_.push_back(std::move(process));
  }
  return cluster;
}

}  // namespace simurgh::bench
