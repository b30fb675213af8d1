#include <iostream>
#include <string>
#include <vector>

#include "bench/micro/rpc/options.h"
#include "bench/micro/rpc/peer.h"
#include "bench/micro/rpc/report.h"
#include "bench/micro/rpc/sweep.h"

namespace simurgh::bench {
namespace {

int Run(int argc, const char* const* argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (IsChild(arguments)) {
    return RunChild(arguments, {SimurghPeer(), RawPeer(), RawGatheringPeer()});
  }
  const auto options = ParseOptions(argc, argv, std::cout);
  if (!options.ok()) {
    std::cerr << "bench_rpc: " << options.status().message() << "\n";
    return 2;
  }
  if (!options->has_value()) return 0;
  const bool json = (*options)->json;
  std::vector<PointResult> results;
  if (!json) PrintTableHead(std::cout);
  const Status status = RunSweep(**options, [&](const PointResult& result) {
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
}  // namespace simurgh::bench

int main(int argc, char** argv) { return simurgh::bench::Run(argc, argv); }
