#include "bench/micro/ps/suite.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "bench/micro/ps/batches.h"
#include "bench/micro/ps/driver.h"
#include "bench/micro/ps/exchange.h"
#include "bench/micro/ps/table_alone.h"
#include "bench/support/folder.h"
#include "bench/support/process.h"
#include "config/cluster_config.h"
#include "embedding/bucket_map.h"

namespace simurgh::bench {
namespace {

constexpr size_t kDistinctBatches = 64;
constexpr auto kStartTimeout = std::chrono::seconds(30);

std::string AddressOf(const std::string& transport, const Folder& folder, const char* name) {
  if (transport != "tcp") return absl::StrCat(transport, "://", (folder.path() / name).string());
  // Ports of this process, so that two benches do not meet.
  return absl::StrCat("127.0.0.1:", 20'000 + ::getpid() % 20'000);
}

StatusOr<std::string> WriteConfig(const Folder& folder, const std::string& address, uint32_t dim,
                                  uint32_t partitions, uint64_t rows) {
  std::string path = (folder.path() / "cluster.yaml").string();
  std::ofstream(folder.path() / "none.csv").flush();  // Required, but not read.
  std::ofstream file(path);
  file << "cluster: {name: bench, seed: 1}\n"
       << "embedding_ps: {partitions: " << partitions << ", instances: [{address: \"" << address
       << "\"}]}\n"
       << "embedding_worker: {instances: [{address: \"unix:///tmp/unused\"}]}\n"
       << "tables:\n  - {names: [t], dim: " << dim << ", capacity_rows: " << 2 * rows
       << ", optimizer: {kind: adagrad}}\n"
       << "features: [{name: t}]\n"
       << "nn_worker: {instances: [{}]}\n"
       << "data: {format: csv, train: [none.csv], test: [none.csv], csv: {columns: ["
       << "{name: t, kind: id}, {name: y, kind: label}]}}\n"
       << "model: {towers: [{name: top, input: embeddings, layers: [{linear: 1}]}]}\n";
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat(path, ": cannot be written"));
  return path;
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// What is measured at one point, by turn.
struct Rates {
  std::vector<double> served;
  std::vector<double> table;
  std::vector<double> transport;

  double Share() const {
    std::vector<double> shares;
    for (size_t i = 0; i < served.size(); ++i) {
      shares.push_back(served[i] / std::min(table[i], transport[i]));
    }
    return Median(shares);
  }
};

// One server and its baselines.
class Scene {
 public:
  Scene(const PsBenchOptions& options, const std::string& program, std::string transport,
        uint32_t dim, uint32_t partitions)
      : options_(options),
        program_(program),
        transport_(std::move(transport)),
        dim_(dim),
        partitions_(partitions),
        batches_(DrawPsBatches(options.rows, dim, BucketMap(1, partitions), kDistinctBatches)) {}

  Status Start() {
    const std::string address = AddressOf(transport_, folder_, "server");
    SIMURGH_ASSIGN_OR_RETURN(const std::string path,
                             WriteConfig(folder_, address, dim_, partitions_, options_.rows));
    SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig config, LoadClusterConfig(path, {}));
    const auto server_program = std::filesystem::path(program_).parent_path() / "embedding-ps";
    SIMURGH_ASSIGN_OR_RETURN(
        Process server,
        Process::Start(server_program.string(), {"--config", path, "--log-level", "error"}));
    server_ = std::make_unique<Process>(std::move(server));
    const std::string exchange_address =
        transport_ == "tcp" ? "127.0.0.1:0" : AddressOf(transport_, folder_, "exchange");
    SIMURGH_ASSIGN_OR_RETURN(Process exchange,
                             Process::Start(program_, ExchangeArguments(exchange_address)));
    exchange_ = std::make_unique<Process>(std::move(exchange));
    SIMURGH_ASSIGN_OR_RETURN(const std::string listening,
                             exchange_->ReadLine(rpc::Clock::now() + kStartTimeout));
    rpc::Hello hello{.cluster = "bench", .role = "embedding-worker"};
    const uint64_t map_version = MapOf(config).version();
    without_rows_ = std::make_unique<Driver>(listening, hello, map_version);
    hello.configuration = ClusterAgreement(config);
    with_rows_ = std::make_unique<Driver>(address, hello, map_version);
    SIMURGH_ASSIGN_OR_RETURN(alone_, TableAlone::Create(config));
    const auto all = AllRows(options_.rows, dim_, BucketMap(1, partitions_));
    alone_->Fill(all);
    SIMURGH_RETURN_IF_ERROR(with_rows_->Fill(all));
    return without_rows_->Fill({batches_[0]});
  }

  StatusOr<Rates> Measure(bool push, uint32_t in_flight) {
    Rates rates;
    for (size_t turn = 0; turn < options_.turns; ++turn) {
      SIMURGH_ASSIGN_OR_RETURN(const double served,
                               with_rows_->Measure(batches_, push, in_flight, options_.seconds));
      rates.served.push_back(served);
      rates.table.push_back(alone_->Measure(batches_, push, in_flight, options_.seconds));
      SIMURGH_ASSIGN_OR_RETURN(const double transport,
                               without_rows_->Measure(batches_, push, in_flight, options_.seconds));
      rates.transport.push_back(transport);
    }
    return rates;
  }

  void Print(const char* name, uint32_t in_flight, const Rates& rates) const {
    const char* format = options_.json
                             ? "{\"case\":\"%s\",\"transport\":\"%s\",\"dim\":%u,\"partitions\":%u,"
                               "\"in_flight\":%u,\"rows_per_s\":%.0f,\"table_rows_per_s\":%.0f,"
                               "\"transport_rows_per_s\":%.0f,\"share\":%.3f}\n"
                             : "%-5s %-9s %4u %10u %9u %12.0f %12.0f %12.0f %6.3f\n";
    std::printf(format, name, transport_.c_str(), dim_, partitions_, in_flight,
                Median(rates.served), Median(rates.table), Median(rates.transport), rates.Share());
    std::fflush(stdout);
  }

 private:
  const PsBenchOptions& options_;
  const std::string& program_;
  const std::string transport_;
  const uint32_t dim_;
  const uint32_t partitions_;
  const std::vector<PsBatch> batches_;
  Folder folder_;
  std::unique_ptr<TableAlone> alone_;
  std::unique_ptr<Process> server_;
  std::unique_ptr<Process> exchange_;
  std::unique_ptr<Driver> with_rows_;
  std::unique_ptr<Driver> without_rows_;
};

Status RunScene(const PsBenchOptions& options, const std::string& program,
                const std::string& transport, uint32_t dim, uint32_t partitions) {
  Scene scene(options, program, transport, dim, partitions);
  SIMURGH_RETURN_IF_ERROR(scene.Start());
  for (const uint32_t in_flight : options.in_flight) {
    for (const bool push : {false, true}) {
      SIMURGH_ASSIGN_OR_RETURN(const Rates rates, scene.Measure(push, in_flight));
      scene.Print(push ? "push" : "pull", in_flight, rates);
    }
  }
  return absl::OkStatus();
}

}  // namespace

Status RunPsSuite(const PsBenchOptions& options, const std::string& program) {
  if (!options.json) {
    std::printf("%-5s %-9s %4s %10s %9s %12s %12s %12s %6s\n", "case", "transport", "dim",
                "partitions", "in flight", "rows/s", "table", "transport", "share");
  }
  for (const uint32_t dim : options.dims) {
    for (const uint32_t partitions : options.partitions) {
      for (const std::string& transport : options.transports) {
        SIMURGH_RETURN_IF_ERROR(RunScene(options, program, transport, dim, partitions));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace simurgh::bench
