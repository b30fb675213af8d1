// Occurrences per second and core through an embedding worker and two servers. See --help.

#include <csignal>
#include <filesystem>
#include <iostream>

#include "bench/micro/worker/options.h"
#include "bench/micro/worker/suite.h"
#include "bench/support/flags.h"

namespace simurgh::bench {
namespace {

constexpr char kAbout[] =
    R"(bench_worker: lookups and backward passes through an embedding worker and two servers

Usage: bench_worker [options]

Batches have 26 single-valued features with the cardinalities of Criteo's data, Zipf 1.05, summed,
and train f32 rows with Adagrad. This process acts as the trainer: it encodes and submits ids,
pulls embeddings and pushes prepared gradients. Two embedding-ps (one partition each) and the
embedding-worker run as separate processes. 64 batches repeat, after a first warm-up round.

occ/s/core: occurrences, forward and backward, over the CPU seconds of all four processes. CPU
shares are by process. Stage shares are of the time that the worker's metrics report per batch. Pull
and push mostly wait for the servers. Bytes per sample are the worker's counts of each hop,
including metadata. All values are medians over the turns.

Exit codes: 0 done, 1 failed, 2 bad options.
)";

WorkerBenchOptions ParseOptions(int argc, char** argv) {
  WorkerBenchOptions options;
  Flags flags("bench_worker", kAbout);
  flags.Words("transport", options.transports, {"tcp", "unix", "shm"}, {"tcp,shm", "tcp"},
              "transports");
  flags.Words("precision", options.precisions, {"f32", "bf16", "f16", "int8"},
              {"f32,bf16,int8", "f32"}, "precisions of embeddings and gradients");
  flags.Words("row-precision", options.row_precisions, {"f32", "bf16", "f16"}, {"f32"},
              "precisions of rows and their gradients");
  flags.Numbers("row-age", options.row_ages, 0, 63, {"0"},
                "steps for which the worker's cache may return a row");
  // The maximum: a server keeps 32 steps open.
  flags.Numbers("in-flight", options.in_flight, 1, 32, {"4"}, "concurrent batches");
  flags.Number("samples", options.samples, 1, 65'535, {"4096"}, "samples per batch");
  flags.Number("dim", options.dim, 1, 1'024, {"16"}, "dim of rows");
  flags.Number("seconds", options.seconds, 0.001, 60, {"3", "1"}, "seconds per measurement");
  flags.Number("turns", options.turns, 1, 1'000, {"3", "1"}, "repetitions of each measurement");
  flags.Parse(argc, argv);
  options.json = flags.json();
  return options;
}

int Run(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const WorkerBenchOptions options = ParseOptions(argc, argv);
  std::error_code ignored;
  const auto programs = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const Status status = RunWorkerSuite(options, programs.string());
  if (status.ok()) return 0;
  std::cerr << "bench_worker: " << status.ToString() << "\n";
  return 1;
}

}  // namespace
}  // namespace simurgh::bench

int main(int argc, char** argv) { return simurgh::bench::Run(argc, argv); }
