#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <yaml-cpp/yaml.h>

#include "tests/bench/run_bench.h"

namespace simurgh::testing {
namespace {

TEST_CASE("bench_batch measures every point asked for, and its figures fit together") {
  const BenchOutcome run =
      RunBench("bench_batch", {"--json", "--distribution", "zipf1.05,uniform", "--samples",
                               "64,2000", "--turns", "1", "--missing", "0"});
  CAPTURE(run.log);
  REQUIRE(run.exit_code == 0);
  std::set<std::pair<std::string, int>> seen;
  std::istringstream lines(run.output);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    const YAML::Node object = YAML::Load(line);  // JSON is YAML.
    REQUIRE(object.IsMap());
    const int samples = object["samples"].as<int>();
    CHECK(object["occurrences"].as<int>() == 26 * samples);
    const double bytes = object["bytes"].as<double>();
    CHECK(object["of_bare"].as<double>() == Approx(bytes / (8.0 * 26 * samples)).margin(1e-4));
    CHECK(object["of_plain"].as<double>() == Approx(bytes / (12.0 * 26 * samples)).margin(1e-4));
    CHECK(object["entropy"].as<double>() <= object["of_bare"].as<double>());
    for (const char* rate : {"build_per_s", "encode_per_s", "make_per_s", "decode_per_s"}) {
      CHECK(object[rate].as<double>() > 0);
    }
    seen.emplace(object["distribution"].as<std::string>(), samples);
  }
  CHECK(seen == std::set<std::pair<std::string, int>>{
                    {"zipf1.05", 64}, {"zipf1.05", 2000}, {"uniform", 64}, {"uniform", 2000}});
}

TEST_CASE("bench_batch refuses what it does not know, in one line") {
  const std::vector<std::vector<std::string>> commands = {
      {"--distribution", "normal"}, {"--samples", "0"}, {"--samples", "65536"},
      {"--missing", "1"},           {"--turns", "0"},   {"--unknown"},
  };
  for (const auto& arguments : commands) {
    const BenchOutcome run = RunBench("bench_batch", arguments);
    CAPTURE(arguments, run.log);
    CHECK(run.exit_code == 2);
    CHECK(std::ranges::count(run.log, '\n') == 1);
  }
}

}  // namespace
}  // namespace simurgh::testing
