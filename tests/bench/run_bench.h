#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/daemon_process.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {

struct BenchOutcome {
  int exit_code = -1;
  std::string output, log;
};

// Runs a bench of build/<preset>/bin to its end, in the test's thread.
inline BenchOutcome RunBench(const std::string& program,
                             const std::vector<std::string>& arguments) {
  constexpr std::chrono::seconds kPatience{120};
  const TemporaryFolder folder;
  DaemonProcess bench(program, arguments, folder.path() + "/bench");
  const std::optional<int> code = bench.Wait(kPatience);
  REQUIRE(code.has_value());
  return {.exit_code = *code, .output = bench.output(), .log = bench.log()};
}

}  // namespace simurgh::testing
