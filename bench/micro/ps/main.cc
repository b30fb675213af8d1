// Rows per second of a parameter server, of its table and of its transport. See --help.

#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <unistd.h>

#include "bench/micro/ps/exchange.h"
#include "bench/micro/ps/options.h"
#include "bench/micro/ps/suite.h"
#include "bench/support/flags.h"

namespace simurgh::bench {
namespace {

constexpr char kAbout[] =
    R"(bench_ps: throughput of a parameter server relative to its table and its transport

Usage: bench_ps [options]

served     an embedding-ps process, called from this process with batches of 4096 distinct ids
table      the same batches in this process without a server, one thread per partition
transport  a process without rows that answers the same requests with responses of the same size

The three take turns. share is served over the slower of the other two, the median over the turns.

Memory: about (4 * dim * 2 + 60) bytes per row and dim, twice.

Exit codes: 0 done, 1 failed, 2 bad options.
)";

PsBenchOptions ParseOptions(int argc, char** argv) {
  PsBenchOptions options;
  Flags flags("bench_ps", kAbout);
  flags.Words("transport", options.transports, {"tcp", "unix", "shm"}, {"tcp,unix,shm"},
              "transports");
  flags.Numbers("dim", options.dims, 1, 1'024, {"16,64"}, "dims of rows");
  flags.Numbers("in-flight", options.in_flight, 1, 64, {"1,4", "4"}, "concurrent requests");
  flags.Numbers("partitions", options.partitions, 1, 64, {"1,2", "1"}, "partitions of the server");
  // The minimum: distinct ids are drawn by rejection.
  flags.Number("rows", options.rows, 65'536, 100'000'000, {"1000000", "100000"},
               "rows of the table");
  flags.Number("seconds", options.seconds, 0.001, 60, {"0.3"}, "seconds per measurement");
  flags.Number("turns", options.turns, 1, 1'000, {"5", "3"}, "repetitions of each measurement");
  flags.Parse(argc, argv);
  options.json = flags.json();
  return options;
}

std::string OwnPath() {
  std::string path(4'096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(length < 0 ? 0 : static_cast<size_t>(length));
  return path;
}

int Run(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  std::signal(SIGPIPE, SIG_IGN);
  if (IsExchange(arguments)) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    return RunExchange(arguments);
  }
  const Status status = RunPsSuite(ParseOptions(argc, argv), OwnPath());
  if (status.ok()) return 0;
  std::cerr << "bench_ps: " << status.ToString() << "\n";
  return 1;
}

}  // namespace
}  // namespace simurgh::bench

int main(int argc, char** argv) { return simurgh::bench::Run(argc, argv); }
