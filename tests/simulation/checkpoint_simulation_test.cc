// Simulates training, saving and recovery in one thread, with the accidents that a seed draws.

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"

#include "base/log.h"
#include "tests/simulation/cluster.h"

namespace simurgh::simulation {
namespace {

constexpr uint64_t kTwice = 3;  // The first seeds run twice: a seed gives one run.

// For ReportSeed(). A seed may fail by the end of the process.
const char* program = "";
uint64_t present_seed = 0;

void ReportSeed() {
  std::printf("to replay: %s --seed %" PRIu64 " --trace\n", program, present_seed);
  std::fflush(stdout);
}

void OnSignal(int signal) {
  std::printf("seed %" PRIu64 " failed: the process ends by signal %d\n", present_seed, signal);
  ReportSeed();
  std::_Exit(1);
}

struct Outcome {
  std::string problem;
  uint64_t digest = 0;  // Of all events.
  uint64_t events = 0;
};

Outcome Run(uint64_t seed, bool prints) {
  present_seed = seed;
  const Plan plan(seed);
  if (prints) std::printf("seed %" PRIu64 ": %s\n", seed, plan.Describe().c_str());
  const Oracle oracle(plan);
  World world(seed, prints);
  {
    Cluster cluster(world, plan, oracle);
    cluster.Run();
  }
  if (!world.problem().empty() && !prints) {
    std::printf("seed %" PRIu64 ": %s\n", seed, plan.Describe().c_str());
    for (const std::string& line : world.last_lines()) std::printf("%s\n", line.c_str());
  }
  return {world.problem(), world.digest(), world.events()};
}

// Returns the exit code.
int RunSeeds(uint64_t first, uint64_t count, bool prints) {
  uint64_t events = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Outcome outcome = Run(seed, prints);
    events += outcome.events;
    const bool runs_twice = seed < first + kTwice && count > 1;
    if (outcome.problem.empty() && runs_twice && Run(seed, false).digest != outcome.digest) {
      outcome.problem = "the second run of the seed differs";
    }
    if (outcome.problem.empty()) continue;
    std::printf("seed %" PRIu64 " failed: %s\n", seed, outcome.problem.c_str());
    ReportSeed();
    return 1;
  }
  std::printf("seeds %" PRIu64 " to %" PRIu64 " passed: events=%" PRIu64 "\n", first,
              first + count - 1, events);
  return 0;
}

int Main(int argc, char** argv) {
  program = argv[0];
  uint64_t first = 1;
  uint64_t count = 500;
  bool prints = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    uint64_t number = 0;
    const bool has_number = i + 1 < argc && absl::SimpleAtoi(argv[i + 1], &number);
    if (option == "--trace") {
      prints = true;
      continue;
    }
    if (has_number && option == "--seed") {
      first = number;
      count = 1;
    } else if (has_number && option == "--seeds") {
      count = number;
    } else if (has_number && option == "--first") {
      first = number;
    } else {
      std::fprintf(stderr, "usage: %s [--seed N | --seeds N] [--first N] [--trace]\n", program);
      return 2;
    }
    ++i;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE}) std::signal(signal, OnSignal);
  spdlog::set_level(spdlog::level::off);
  return RunSeeds(first, count, prints);
}

}  // namespace
}  // namespace simurgh::simulation

int main(int argc, char** argv) { return simurgh::simulation::Main(argc, argv); }
