#include "bench/micro/worker/suite.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "base/random.h"
#include "bench/datagen/generator.h"
#include "bench/datagen/zipf.h"
#include "bench/micro/worker/cluster.h"
#include "bench/micro/worker/driver.h"
#include "bench/micro/worker/scrape.h"
#include "bench/support/process_stats.h"
#include "data/batch/batch_builder.h"

namespace simurgh::bench {
namespace {

constexpr size_t kDistinctBatches = 64;
constexpr double kExponent = 1.05;
constexpr uint64_t kSeed = 1;

using Batches = std::vector<SubmittedIds>;

// The messages of a batch, in the order in which they are sent.
struct Hop {
  const char* name;
  const char* side;
  const char* method;
  const char* direction;
};
constexpr Hop kHops[] = {{"submit", "server", "submit_batch", "request"},
                         {"row_ids", "client", "pull_rows", "request"},
                         {"rows", "client", "pull_rows", "response"},
                         {"embeddings", "server", "pull_batch", "response"},
                         {"gradients", "server", "push_batch", "request"},
                         {"row_gradients", "client", "push_rows", "request"}};
constexpr const char* kStages[] = {"plan", "pull", "pool", "unpool", "push"};

// The reported figures of a measurement.
struct Figures {
  double samples_per_s = 0;
  double occurrences_per_s = 0;
  double per_core = 0;
  double cores = 0;
  double trainer_share = 0;
  double worker_share = 0;
  double servers_share = 0;
  double cache_hit_share = 0;  // Cached rows over all rows used.
  std::array<double, std::size(kStages)> stages{};
  std::array<double, std::size(kHops)> bytes{};
};

StatusOr<Batches> DrawBatches(uint32_t samples) {
  SIMURGH_ASSIGN_OR_RETURN(const Generator generator, Generator::Create({}));
  std::vector<ZipfSampler> samplers;
  for (const uint64_t cardinality : generator.cardinalities()) {
    samplers.emplace_back(cardinality, kExponent);
  }
  Random random(kSeed);
  BatchBuilder builder(Generator::kFeatures, 0);
  Batches batches;
  for (size_t i = 0; i < kDistinctBatches; ++i) {
    for (uint32_t s = 0; s < samples; ++s) {
      for (size_t f = 0; f < Generator::kFeatures; ++f) {
        builder.AddId(f, Mix64((f + 1) << 40 | samplers[f].Draw(random)));
      }
      builder.EndSample();
    }
    SIMURGH_ASSIGN_OR_RETURN(const Batch batch, builder.Build());
    SIMURGH_ASSIGN_OR_RETURN(EncodedBatch encoded, EncodeBatch(*batch.sparse));
    batches.push_back({batch.sparse, std::make_shared<const EncodedBatch>(std::move(encoded))});
  }
  return batches;
}

// CPU seconds so far of the trainer, the worker and the servers.
std::array<double, 3> CpuNow(const WorkerCluster& cluster) {
  std::array<double, 3> seconds = {CpuSeconds(::getpid()), CpuSeconds(cluster.worker()), 0};
  for (const pid_t server : cluster.servers()) seconds[2] += CpuSeconds(server);
  return seconds;
}

StatusOr<Figures> Measure(const WorkerCluster& cluster, WorkerDriver& driver,
                          const Batches& batches, uint32_t in_flight, double seconds) {
  SIMURGH_ASSIGN_OR_RETURN(const Series before, Scrape(cluster.worker_metrics()));
  const std::array<double, 3> cpu_before = CpuNow(cluster);
  const auto start = std::chrono::steady_clock::now();
  SIMURGH_ASSIGN_OR_RETURN(const uint64_t done, driver.Drive(batches, in_flight, seconds));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  std::array<double, 3> cpu = CpuNow(cluster);
  for (size_t i = 0; i < cpu.size(); ++i) cpu[i] -= cpu_before[i];
  SIMURGH_ASSIGN_OR_RETURN(const Series after, Scrape(cluster.worker_metrics()));

  const double all = cpu[0] + cpu[1] + cpu[2];
  const double samples = static_cast<double>(done) * batches.front().batch->batch_size;
  const double occurrences = samples * Generator::kFeatures;
  Figures figures{.samples_per_s = samples / elapsed.count(),
                  .occurrences_per_s = occurrences / elapsed.count(),
                  .per_core = occurrences / all,
                  .cores = all / elapsed.count(),
                  .trainer_share = cpu[0] / all,
                  .worker_share = cpu[1] / all,
                  .servers_share = cpu[2] / all};
  const double hits = Growth(before, after, "simurgh_worker_row_cache_hits_total");
  figures.cache_hit_share =
      hits / std::max(1.0, hits + Growth(before, after, "simurgh_worker_row_cache_misses_total"));
  double total = 0;
  for (size_t i = 0; i < std::size(kStages); ++i) {
    figures.stages[i] =
        Growth(before, after,
               absl::StrCat("simurgh_worker_stage_seconds_sum{stage=\"", kStages[i], "\"}"));
    total += figures.stages[i];
  }
  for (double& stage : figures.stages) stage /= total;
  for (size_t i = 0; i < std::size(kHops); ++i) {
    const Hop& hop = kHops[i];
    figures.bytes[i] = Growth(before, after,
                              absl::StrCat("simurgh_rpc_", hop.direction, "_bytes_total{method=\"",
                                           hop.method, "\",side=\"", hop.side, "\"}")) /
                       samples;
  }
  return figures;
}

template <typename Member>
double Median(std::vector<Figures>& turns, const Member& member) {
  std::vector<double> values;
  for (const Figures& turn : turns) values.push_back(member(turn));
  std::ranges::sort(values);
  return values[values.size() / 2];
}

Figures Medians(std::vector<Figures>& turns) {
  Figures medians;
  for (double Figures::* const member :
       {&Figures::samples_per_s, &Figures::occurrences_per_s, &Figures::per_core, &Figures::cores,
        &Figures::trainer_share, &Figures::worker_share, &Figures::servers_share,
        &Figures::cache_hit_share}) {
    medians.*member = Median(turns, [&](const Figures& turn) { return turn.*member; });
  }
  for (size_t i = 0; i < medians.stages.size(); ++i) {
    medians.stages[i] = Median(turns, [&](const Figures& turn) { return turn.stages[i]; });
  }
  for (size_t i = 0; i < medians.bytes.size(); ++i) {
    medians.bytes[i] = Median(turns, [&](const Figures& turn) { return turn.bytes[i]; });
  }
  return medians;
}

struct Point {
  WorkerCluster::Setup setup;
  uint32_t in_flight = 0;
};

std::vector<WorkerCluster::Setup> SetupsOf(const WorkerBenchOptions& options) {
  std::vector<WorkerCluster::Setup> setups;
  for (const std::string& transport : options.transports) {
    for (const std::string& precision : options.precisions) {
      for (const std::string& row_precision : options.row_precisions) {
        for (const uint32_t row_age : options.row_ages) {
          setups.push_back({transport, precision, row_precision, row_age, options.dim});
        }
      }
    }
  }
  return setups;
}

void PrintJson(const WorkerBenchOptions& options, const Point& point, const Figures& figures) {
  std::string line =
      absl::StrCat("{\"transport\":\"", point.setup.transport, "\",\"precision\":\"",
                   point.setup.precision, "\",\"row_precision\":\"", point.setup.row_precision,
                   "\",\"row_age\":", point.setup.row_age, ",\"in_flight\":", point.in_flight,
                   ",\"samples\":", options.samples, ",\"dim\":", options.dim);
  const auto add = [&line](const std::string& name, double value) {
    absl::StrAppend(&line, ",\"", name, "\":", value);
  };
  add("samples_per_s", figures.samples_per_s);
  add("occ_per_s", figures.occurrences_per_s);
  add("occ_per_s_core", figures.per_core);
  add("cores", figures.cores);
  add("cpu_trainer", figures.trainer_share);
  add("cpu_worker", figures.worker_share);
  add("cpu_servers", figures.servers_share);
  add("row_cache", figures.cache_hit_share);
  for (size_t i = 0; i < std::size(kStages); ++i) {
    add(absl::StrCat("time_", kStages[i]), figures.stages[i]);
  }
  for (size_t i = 0; i < std::size(kHops); ++i) {
    add(absl::StrCat("bytes_", kHops[i].name), figures.bytes[i]);
  }
  std::printf("%s}\n", line.c_str());
}

void PrintText(const Point& point, const Figures& figures) {
  std::printf(
      "%s, %s, rows %s of %u steps, %u in flight: %.0f samples/s, %.3g occ/s, %.3g occ/s/core on "
      "%.2f cores\n",
      point.setup.transport.c_str(), point.setup.precision.c_str(),
      point.setup.row_precision.c_str(), point.setup.row_age, point.in_flight,
      figures.samples_per_s, figures.occurrences_per_s, figures.per_core, figures.cores);
  std::printf("  CPU: trainer %.2f, worker %.2f, servers %.2f; rows used again: %.2f\n  time:",
              figures.trainer_share, figures.worker_share, figures.servers_share,
              figures.cache_hit_share);
  for (size_t i = 0; i < std::size(kStages); ++i) {
    std::printf(" %s %.2f", kStages[i], figures.stages[i]);
  }
  std::printf("\n  bytes/sample:");
  for (size_t i = 0; i < std::size(kHops); ++i) {
    std::printf(" %s %.0f", kHops[i].name, figures.bytes[i]);
  }
  std::printf("\n");
}

}  // namespace

Status RunWorkerSuite(const WorkerBenchOptions& options, const std::string& programs) {
  SIMURGH_ASSIGN_OR_RETURN(const Batches batches, DrawBatches(options.samples));
  for (const WorkerCluster::Setup& setup : SetupsOf(options)) {
    SIMURGH_ASSIGN_OR_RETURN(const auto cluster, WorkerCluster::Start(programs, setup));
    WorkerDriver driver(cluster->config());
    // Makes the rows, and finds the memory that everybody needs.
    SIMURGH_RETURN_IF_ERROR(
        driver.Drive(batches, options.in_flight.front(), /*seconds=*/0).status());
    for (const uint32_t in_flight : options.in_flight) {
      std::vector<Figures> turns;
      for (uint32_t turn = 0; turn < options.turns; ++turn) {
        SIMURGH_ASSIGN_OR_RETURN(const Figures figures,
                                 Measure(*cluster, driver, batches, in_flight, options.seconds));
        turns.push_back(figures);
      }
      const Point point{setup, in_flight};
      if (options.json) {
        PrintJson(options, point, Medians(turns));
      } else {
        PrintText(point, Medians(turns));
      }
      std::fflush(stdout);
    }
  }
  return absl::OkStatus();
}

}  // namespace simurgh::bench
