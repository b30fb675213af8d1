// Size and speed of encoded ID features. See --help.

#include <cstdio>
#include <string>
#include <vector>

#include "bench/micro/batch/measure.h"
#include "bench/micro/batch/samples.h"
#include "bench/support/flags.h"
#include "data/batch/batch.h"

namespace simurgh::bench {
namespace {

constexpr char kAbout[] =
    R"(bench_batch: size and speed of a batch's encoded ID features

Usage: bench_batch [options]

A batch has 26 single-valued features with the cardinalities of Criteo's data and ids uniform in
64 bits. One thread builds, encodes and decodes it.

Rates are occurrences per second, medians over the turns; make is build and encode.
of_bare    bytes over 8 per occurrence
of_plain   bytes over 12 per occurrence (ids and lengths)
of_persia  bytes over 28 per unique id and 8 per occurrence
entropy    the lower bound of of_bare: 64 bits per unique id, ignoring their order, plus the
           empirical entropy of each feature's occurrences

Exit codes: 0 done, 2 bad options.
)";

constexpr uint64_t kSeed = 42;

struct Options {
  std::vector<std::string> distributions;
  std::vector<size_t> samples;
  double missing;
  size_t turns;
  bool json;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  Flags flags("bench_batch", kAbout);
  flags.Words("distribution", options.distributions,
              {std::begin(kDistributions), std::end(kDistributions)}, {"zipf1.05,zipf1.2,uniform"},
              "distributions of ids");
  flags.Numbers("samples", options.samples, 1, kMaxBatchSamples,
                {"1024,2048,4096,8192,16384,32768,65535", "4096,16384"}, "samples per batch");
  flags.Number("missing", options.missing, 0, 0.99, {"0.03"}, "probability of an empty cell");
  flags.Number("turns", options.turns, 1, 1000, {"5", "2"}, "repetitions of each measurement");
  flags.Parse(argc, argv);
  options.json = flags.json();
  return options;
}

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

void Run(const Options& options) {
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
  using namespace simurgh::bench;
  Run(ParseOptions(argc, argv));
  return 0;
}
