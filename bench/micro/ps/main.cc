// How many rows a second a parameter server serves, beside its table and its transport alone. See
// --help.

#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <unistd.h>

#include "bench/micro/ps/exchange.h"
#include "bench/micro/ps/options.h"
#include "bench/micro/ps/suite.h"

namespace {

std::string OwnPath() {
  std::string path(4'096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(length < 0 ? 0 : static_cast<size_t>(length));
  return path;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace simurgh;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  std::signal(SIGPIPE, SIG_IGN);
  if (bench::IsExchange(arguments)) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    return bench::RunExchange(arguments);
  }
  const auto options = bench::ParsePsBenchOptions(argc, argv, std::cout);
  if (!options.ok()) {
    std::cerr << "bench_ps: " << options.status().message() << "\n";
    return 2;
  }
  if (!options->has_value()) return 0;
  const Status status = bench::RunPsSuite(**options, OwnPath());
  if (status.ok()) return 0;
  std::cerr << "bench_ps: " << status.ToString() << "\n";
  return 1;
}
