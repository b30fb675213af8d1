#include <algorithm>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "bench/micro/rpc/options.h"
#include "bench/micro/rpc/peer.h"
#include "bench/micro/rpc/report.h"
#include "bench/micro/rpc/sweep.h"
#include "bench/support/flags.h"

namespace simurgh::bench {
namespace {

constexpr char kAbout[] =
    R"(bench_rpc: requests per second, latency, CPU time and memory of the rpc library

Usage: bench_rpc [options]

Two processes on this machine, client and server, use one connection. The server answers a request
of N bytes with N bytes. Each end receives a payload in one piece at the address of its choice.
bench/README.md explains what is measured.

simurgh is this library as the daemons run it by default: its threads sleep while they wait.
simurgh-spin is the same with rpc.spin: they poll for a time before they sleep.

Work: echo: the server returns the bytes it received. ready: both ends send prepared tensors and
read every byte. produce: both ends write and read every byte.

--peers=LIST also measures echo with other implementations and prints ratios of medians. --peers
without a list is raw and both of gRPC. Points with more than 512 MiB in flight are skipped. Before
each measurement, the peers run for a quarter of its time.

Exit codes: 0 done, 2 bad options, 3 failed.
)";

Options ParseOptions(int argc, const char* const* argv) {
  constexpr Work kWorks[] = {Work::kEcho, Work::kReady, Work::kProduce};
  std::vector<std::string> names;
  std::ranges::transform(kWorks, std::back_inserter(names), NameOf);
  std::vector<std::string> works;
  Options options;
  Flags flags("bench_rpc", kAbout);
  flags.Words("transport", options.transports, {"tcp", "unix", "shm"}, {"tcp,unix,shm"},
              "transports");
  flags.Words("work", works, names, {"echo"}, "kinds of work");
  flags.Numbers("bytes", options.bytes, Workload::kMinBytes, 512 << 20,
                {"64,256,1Ki,4Ki,16Ki,64Ki,256Ki,1Mi,8Mi,64Mi", "64,64Ki,1Mi"}, "payload sizes");
  flags.Numbers("in-flight", options.in_flight, 1, 1'024, {"1,8,64", "1,8"}, "concurrent requests");
  flags.Words("peers", options.peers, {"raw", "raw-gather", "grpc", "grpc-bytebuffer"}, {},
              "other implementations to measure", "raw,grpc,grpc-bytebuffer");
  flags.Number("repeat", options.repeat, 1, 1'000, {"5", "3"},
               "measurements of each point; transports and peers alternate");
  flags.Number("seconds", options.seconds, 0.001, 3'600, {"0.5", "0.2"}, "seconds per measurement");
  flags.Number("spin", options.spin_us, 0, 1'000'000, {"100"},
               "rpc.spin of simurgh-spin in microseconds; 0 leaves it out");
  flags.Parse(argc, argv);
  options.json = flags.json();
  for (const std::string& name : works) {
    options.works.push_back(kWorks[std::ranges::find(names, name) - names.begin()]);
  }
  return options;
}

int Run(int argc, const char* const* argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (IsChild(arguments)) {
    return RunChild(
        arguments, {SimurghPeer(kOurs), SimurghPeer(kOursSpinning), RawPeer(), RawGatheringPeer()});
  }
  const Options options = ParseOptions(argc, argv);
  const bool json = options.json;
  std::vector<PointResult> results;
  if (!json) PrintTableHead(std::cout);
  const Status status = RunSweep(options, [&](const PointResult& result) {
    if (json) return PrintJson(result, std::cout);
    PrintTableRows(result, std::cout);
    results.push_back(result);
  });
  if (!status.ok()) {
    std::cerr << "bench_rpc: " << status.ToString() << "\n";
    return 3;
  }
  if (!json) PrintRatios(results, std::cout);
  return 0;
}

}  // namespace

std::string BytesText(uint64_t bytes) {
  if (bytes % (1 << 20) == 0) return absl::StrCat(bytes >> 20, "Mi");
  if (bytes % (1 << 10) == 0) return absl::StrCat(bytes >> 10, "Ki");
  return absl::StrCat(bytes);
}

}  // namespace simurgh::bench

int main(int argc, char** argv) { return simurgh::bench::Run(argc, argv); }
