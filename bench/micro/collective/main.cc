// Time of sums and gathers among ranks. See --help.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "base/check.h"
#include "bench/support/flags.h"
#include "tests/unit/collective/rank_threads.h"

namespace simurgh::bench {
namespace {

constexpr char kAbout[] =
    R"(bench_collective: sums and gathers among ranks on one machine

Usage: bench_collective [options]

Each rank is a thread. Ranks sum floats in f32, bf16 or int8, or gather 64 bytes from each rank.
us: microseconds per call on rank 0, mean of a measurement. mb_per_s: megabytes of f32 values summed
per second. The points of one transport and number of ranks take turns.

Exit codes: 0 done, 1 failed, 2 bad options.
)";

constexpr size_t kGatherBytes = 64;
constexpr double kWarmUpShare = 0.1;

struct Options {
  std::vector<std::string> transports;
  std::vector<size_t> ranks;
  std::vector<std::string> works;
  std::vector<size_t> bytes;
  double megabytes;
  size_t turns;
  bool json;
};

struct Point {
  std::string work;
  size_t bytes;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  Flags flags("bench_collective", kAbout);
  flags.Words("transport", options.transports, {"tcp", "shm"}, {"tcp,shm"},
              "transports between ranks");
  flags.Numbers("ranks", options.ranks, 2, 16, {"2,4", "2"}, "numbers of ranks");
  flags.Words("work", options.works, {"f32", "bf16", "int8", "gather"}, {"f32,bf16,int8,gather"},
              "precisions of sums, or gather");
  flags.Numbers("bytes", options.bytes, 4, 256 << 20, {"64Ki,1Mi,16Mi", "64Ki,1Mi"},
                "bytes of the values that are summed");
  flags.Number("megabytes", options.megabytes, 0.001, 100'000, {"1000", "100"},
               "megabytes per measurement; a call counts as 64 KB or more");
  flags.Number("turns", options.turns, 1, 1'000, {"5", "2"}, "repetitions of each measurement");
  flags.Parse(argc, argv);
  options.json = flags.json();
  return options;
}

std::vector<Point> PointsOf(const Options& options) {
  std::vector<Point> points;
  for (const std::string& work : options.works) {
    if (work == "gather") {
      points.push_back({work, kGatherBytes});
    } else {
      for (const size_t bytes : options.bytes) points.push_back({work, bytes});
    }
  }
  return points;
}

// Makes the point's call `calls` times.
Status Repeat(Collective& ranks, const Point& point, size_t calls) {
  std::vector<float> values(std::max<size_t>(point.bytes / sizeof(float), 1), 0.5F);
  std::vector<float> all(values.size() * (point.work == "gather" ? ranks.ranks() : 0));
  const ReducePrecision precision = point.work == "bf16"   ? ReducePrecision::kBf16
                                    : point.work == "int8" ? ReducePrecision::kInt8
                                                           : ReducePrecision::kF32;
  for (size_t i = 0; i < calls; ++i) {
    if (point.work == "gather") {
      SIMURGH_RETURN_IF_ERROR(ranks.Gather(Channel::kStep, std::as_bytes(std::span(values)),
                                           std::as_writable_bytes(std::span(all))));
    } else {
      SIMURGH_RETURN_IF_ERROR(ranks.Sum(Channel::kGradients, values, precision, {}));
      if (i % 16 == 0) std::ranges::fill(values, 0.5F);  // Sums of sums would overflow.
    }
  }
  return absl::OkStatus();
}

void Print(const Options& options, const std::string& transport, uint32_t ranks, const Point& point,
           double us) {
  std::printf(options.json ? "{\"transport\":\"%s\",\"ranks\":%u,\"work\":\"%s\",\"bytes\":%zu,"
                             "\"us\":%.2f,\"mb_per_s\":%.1f}\n"
                           : "%-9s %5u %-6s %9zu %12.2f %10.1f\n",
              transport.c_str(), ranks, point.work.c_str(), point.bytes, us,
              static_cast<double>(point.bytes) / us);
  std::fflush(stdout);
}

Status MeasureAll(const Options& options, const std::string& transport, uint32_t ranks) {
  const std::vector<Point> points = PointsOf(options);
  const auto body = [&](std::unique_ptr<Collective>& collective) -> Status {
    for (size_t turn = 0; turn < options.turns; ++turn) {
      for (const Point& point : points) {
        const double counted = static_cast<double>(std::max<size_t>(point.bytes, 64'000));
        const auto calls = static_cast<size_t>(options.megabytes * 1e6 / counted) + 1;
        const auto warm_up = static_cast<size_t>(kWarmUpShare * static_cast<double>(calls)) + 1;
        SIMURGH_RETURN_IF_ERROR(Repeat(*collective, point, warm_up));
        const auto start = std::chrono::steady_clock::now();
        SIMURGH_RETURN_IF_ERROR(Repeat(*collective, point, calls));
        const std::chrono::duration<double, std::micro> taken =
            std::chrono::steady_clock::now() - start;
        if (collective->rank() > 0) continue;
        Print(options, transport, ranks, point, taken.count() / static_cast<double>(calls));
      }
    }
    return absl::OkStatus();
  };
  for (const Status& status :
       testing::RunRanks(ranks, body, {.sharers = transport == "shm" ? ranks : 0})) {
    SIMURGH_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

int Run(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  if (!options.json) {
    std::printf("%-9s %5s %-6s %9s %12s %10s\n", "transport", "ranks", "work", "bytes", "us",
                "mb_per_s");
  }
  for (const std::string& transport : options.transports) {
    for (const size_t ranks : options.ranks) {
      const Status status = MeasureAll(options, transport, static_cast<uint32_t>(ranks));
      if (status.ok()) continue;
      std::cerr << "bench_collective: " << status.ToString() << "\n";
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace simurgh::bench

int main(int argc, char** argv) { return simurgh::bench::Run(argc, argv); }
