// How many occurrences a second a core moves through an embedding worker and two servers, forward
// and backward. See --help.

#include <csignal>
#include <filesystem>
#include <iostream>

#include "bench/micro/worker/options.h"
#include "bench/micro/worker/suite.h"

int main(int argc, char** argv) {
  using namespace simurgh;
  std::signal(SIGPIPE, SIG_IGN);
  const auto options = bench::ParseWorkerBenchOptions(argc, argv, std::cout);
  if (!options.ok()) {
    std::cerr << "bench_worker: " << options.status().message() << "\n";
    return 2;
  }
  if (!options->has_value()) return 0;
  std::error_code ignored;
  const auto programs = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const Status status = bench::RunWorkerSuite(**options, programs.string());
  if (status.ok()) return 0;
  std::cerr << "bench_worker: " << status.ToString() << "\n";
  return 1;
}
