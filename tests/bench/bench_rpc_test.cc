#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>
#include <yaml-cpp/yaml.h>

#include "tests/bench/run_bench.h"

namespace simurgh::testing {
namespace {

using Key = std::tuple<std::string, std::string, std::string, int, int>;

// A measurement has all fields and they fit together; whose it is.
Key CheckSample(const std::string& line) {
  CAPTURE(line);
  REQUIRE(line.starts_with('{'));
  const YAML::Node object = YAML::Load(line);  // JSON is YAML.
  REQUIRE(object.IsMap());
  for (const char* field :
       {"rps", "gbps", "p50_us", "p99_us", "p999_us", "cpu_s_per_gb", "peak_rss_mb"}) {
    CAPTURE(field);
    CHECK(object[field].as<double>() > 0);
  }
  CHECK(object["extra_rss_mb"].IsDefined());
  CHECK(object["other_cores"].as<double>() >= 0);
  CHECK(object["p50_us"].as<double>() <= object["p99_us"].as<double>());
  const double bytes = object["bytes"].as<double>();
  // Printed with six digits behind the point.
  CHECK(object["gbps"].as<double>() ==
        Approx(object["rps"].as<double>() * 2 * bytes / 1e9).epsilon(0.02).margin(1e-6));
  CHECK(object["repeat"].as<int>() == 2);
  return {object["work"].as<std::string>(), object["peer"].as<std::string>(),
          object["transport"].as<std::string>(), object["bytes"].as<int>(),
          object["in_flight"].as<int>()};
}

TEST_CASE("bench_rpc measures every point asked for, each with all fields") {
  const BenchOutcome run =
      RunBench("bench_rpc", {"--json", "--peers=raw,raw-gather", "--work", "echo,ready,produce",
                             "--transport", "tcp,unix,shm", "--bytes", "8,1000,256Ki",
                             "--in-flight", "1,5", "--repeat", "2", "--seconds", "0.005"});
  CAPTURE(run.log);
  REQUIRE(run.exit_code == 0);
  std::set<Key> seen;
  std::istringstream lines(run.output);
  for (std::string line; std::getline(lines, line);) {
    const bool fresh = seen.insert(CheckSample(line)).second;
    CHECK(fresh);
  }
  std::set<Key> expected;
  for (const char* transport : {"tcp", "unix", "shm"}) {
    for (const int bytes : {8, 1000, 262'144}) {
      for (const int in_flight : {1, 5}) {
        const bool shared = std::string(transport) == "shm";
        for (const char* peer : {"simurgh", "raw", "raw-gather"}) {
          if (shared && std::string(peer) != "simurgh") continue;
          expected.emplace("echo", peer, transport, bytes, in_flight);
        }
        expected.emplace("ready", "simurgh", transport, bytes, in_flight);
        expected.emplace("produce", "simurgh", transport, bytes, in_flight);
      }
    }
  }
  CHECK(seen == expected);
}

TEST_CASE("both ends hold the tensors in flight and at most 8 MB beside them") {
  const BenchOutcome run = RunBench(
      "bench_rpc", {"--json", "--work", "echo,produce", "--transport", "tcp,unix,shm", "--bytes",
                    "64,8Mi", "--in-flight", "8", "--repeat", "1", "--seconds", "0.02"});
  CAPTURE(run.log);
  REQUIRE(run.exit_code == 0);
  int points = 0;
  std::istringstream lines(run.output);
  for (std::string line; std::getline(lines, line); ++points) {
    CAPTURE(line);
    CHECK(YAML::Load(line)["extra_rss_mb"].as<double>() <= 8);
  }
  CHECK(points == 12);
}

TEST_CASE("bench_rpc leaves out points above 512 MiB in flight") {
  const BenchOutcome run =
      RunBench("bench_rpc", {"--json", "--transport", "unix", "--bytes", "64,512Mi", "--in-flight",
                             "2", "--repeat", "1", "--seconds", "0.005"});
  CAPTURE(run.log);
  REQUIRE(run.exit_code == 0);
  CHECK(run.output.find("\"bytes\":64,") != std::string::npos);
  CHECK(run.output.find("\"bytes\":536870912,") == std::string::npos);
}

TEST_CASE("bench_rpc refuses what it does not know, in one line that names the option") {
  const std::vector<std::vector<std::string>> commands = {
      {"--transport", "carrier-pigeon"},
      {"--bytes", "7"},
      {"--bytes", "1Gi"},
      {"--in-flight", "0"},
      {"--peers=nobody"},
      {"--seconds", "-1"},
      {"--unknown"},
      {"--work", "sleep"},
      {"--repeat", "many"},
      {"--repeat", "0"},
      {"--repeat", "-1"},
      {"--repeat", "1,2"},
      {"--seconds", "0"},
      {"--seconds", "nan"},
      {"--seconds", "inf"},
      {"--max-spin", "-1"},
  };
  for (const auto& arguments : commands) {
    const BenchOutcome run = RunBench("bench_rpc", arguments);
    CAPTURE(arguments, run.log);
    CHECK(run.exit_code == 2);
    CHECK(std::ranges::count(run.log, '\n') == 1);
    const std::string option = arguments[0].substr(0, arguments[0].find('='));
    CHECK_THAT(run.log, Catch::Contains(option));
  }
}

}  // namespace
}  // namespace simurgh::testing
