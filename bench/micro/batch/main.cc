// How small the ID features of a batch travel, beside other layouts, and how fast they are packed.
// See --help.

#include <cstdio>
#include <iostream>

#include "bench/micro/batch/measure.h"
#include "bench/micro/batch/options.h"
#include "bench/micro/batch/samples.h"

namespace simurgh::bench {
namespace {

constexpr uint64_t kSeed = 42;

void Print(const std::string& distribution, size_t samples, const BatchMeasurement& one,
           bool json) {
  const char* format =
      json ? "{\"distribution\":\"%s\",\"samples\":%zu,\"occurrences\":%llu,\"unique_ids\":%llu,"
             "\"bytes\":%llu,\"of_bare\":%.4f,\"entropy\":%.4f,\"of_plain\":%.4f,"
             "\"of_persia\":%.4f,\"build_per_s\":%.0f,\"encode_per_s\":%.0f,"
             "\"make_per_s\":%.0f,\"decode_per_s\":%.0f}\n"
           : "%-10s %7zu %11llu %10llu %10llu %8.4f %8.4f %8.4f %9.4f %12.0f %12.0f %12.0f "
             "%12.0f\n";
  std::printf(
      format, distribution.c_str(), samples, static_cast<unsigned long long>(one.occurrences),
      static_cast<unsigned long long>(one.unique_ids), static_cast<unsigned long long>(one.bytes),
      one.of_bare(), one.entropy(), one.of_plain(), one.of_persia(), one.build_per_s,
      one.encode_per_s, one.make_per_s, one.decode_per_s);
  std::fflush(stdout);
}

void Run(const BatchBenchOptions& options) {
  if (!options.json) {
    std::printf("%-10s %7s %11s %10s %10s %8s %8s %8s %9s %12s %12s %12s %12s\n", "ids", "samples",
                "occurrences", "unique", "bytes", "of_bare", "entropy", "of_plain", "of_persia",
                "build/s", "encode/s", "make/s", "decode/s");
  }
  for (const std::string& distribution : options.distributions) {
    for (const size_t samples : options.samples) {
      const auto ids = DrawSamples(distribution, samples, options.missing, kSeed);
      Print(distribution, samples, Measure(ids, options.turns), options.json);
    }
  }
}

}  // namespace
}  // namespace simurgh::bench

int main(int argc, char** argv) {
  using namespace simurgh;
  const auto options = bench::ParseBatchBenchOptions(argc, argv, std::cout);
  if (!options.ok()) {
    std::cerr << "bench_batch: " << options.status().message() << "\n";
    return 2;
  }
  if (options->has_value()) bench::Run(**options);
  return 0;
}
