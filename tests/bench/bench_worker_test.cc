#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <yaml-cpp/yaml.h>

#include "tests/bench/run_bench.h"

namespace simurgh::testing {
namespace {

TEST_CASE("bench_worker measures every point asked for, and its figures fit together") {
  const BenchOutcome run =
      RunBench("bench_worker", {"--json", "--transport", "tcp,shm", "--precision", "f32,int8",
                                "--samples", "64", "--seconds", "0.05", "--turns", "1"});
  CAPTURE(run.log);
  REQUIRE(run.exit_code == 0);
  std::set<std::pair<std::string, std::string>> seen;
  std::istringstream lines(run.output);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    const YAML::Node object = YAML::Load(line);  // JSON is YAML.
    REQUIRE(object.IsMap());
    const auto number = [&](const std::string& field) { return object[field].as<double>(); };
    CHECK(number("occ_per_s") == Approx(26 * number("samples_per_s")).epsilon(0.01));
    CHECK(number("occ_per_s") == Approx(number("occ_per_s_core") * number("cores")).epsilon(0.01));
    CHECK(number("cpu_trainer") + number("cpu_worker") + number("cpu_servers") ==
          Approx(1.0).margin(0.01));
    double time = 0;
    for (const char* stage : {"plan", "pull", "pool", "unpool", "push"}) {
      time += number(std::string("time_") + stage);
    }
    CHECK(time == Approx(1.0).margin(0.01));
    const auto precision = object["precision"].as<std::string>();
    const double vectors = precision == "f32" ? 26 * 16 * 4 : 26 * (16 + 4);
    // Metadata comes on top.
    CHECK(number("bytes_embeddings") > vectors);
    CHECK(number("bytes_embeddings") < vectors + 1);
    CHECK(number("bytes_gradients") > vectors);
    CHECK(number("bytes_gradients") < vectors + 20);
    // A row has 8 times the bytes of its id, beside which a request has metadata.
    CHECK(number("bytes_rows") > 7 * number("bytes_row_ids") / 2);
    CHECK(number("bytes_row_gradients") > number("bytes_rows"));
    CHECK(number("bytes_submit") > 0);
    seen.emplace(object["transport"].as<std::string>(), precision);
  }
  CHECK(seen == std::set<std::pair<std::string, std::string>>{
                    {"tcp", "f32"}, {"tcp", "int8"}, {"shm", "f32"}, {"shm", "int8"}});
}

TEST_CASE("bench_worker shows what precision of rows and using them again save on the wire") {
  const BenchOutcome run =
      RunBench("bench_worker",
               {"--json", "--transport", "tcp", "--precision", "bf16", "--row-precision", "f32,f16",
                "--row-age", "0,3", "--samples", "256", "--seconds", "0.05", "--turns", "1"});
  CAPTURE(run.log);
  REQUIRE(run.exit_code == 0);
  std::map<std::pair<std::string, int>, YAML::Node> points;
  std::istringstream lines(run.output);
  for (std::string line; std::getline(lines, line);) {
    const YAML::Node object = YAML::Load(line);
    points[{object["row_precision"].as<std::string>(), object["row_age"].as<int>()}] = object;
  }
  REQUIRE(points.size() == 4);
  const auto number = [&](const std::string& precision, int age, const char* field) {
    return points.at({precision, age})[field].as<double>();
  };
  for (const char* precision : {"f32", "f16"}) {
    CAPTURE(precision);
    CHECK(number(precision, 0, "row_cache") == 0);
    CHECK(number(precision, 3, "row_cache") > 0.1);
    CHECK(number(precision, 3, "bytes_rows") < 0.9 * number(precision, 0, "bytes_rows"));
  }
  CHECK(number("f16", 0, "bytes_rows") == Approx(number("f32", 0, "bytes_rows") / 2).epsilon(0.02));
  CHECK(number("f16", 0, "bytes_row_gradients") < 0.7 * number("f32", 0, "bytes_row_gradients"));
}

TEST_CASE("bench_worker refuses what it does not know, in one line") {
  const std::vector<std::vector<std::string>> commands = {
      {"--transport", "udp"}, {"--precision", "f64"}, {"--samples", "65536"},
      {"--in-flight", "0"},   {"--turns", "0"},       {"--seconds", "-1"},
      {"--unknown"},          {"--row-age", "64"},    {"--row-precision", "int8"},
  };
  for (const auto& arguments : commands) {
    const BenchOutcome run = RunBench("bench_worker", arguments);
    CAPTURE(arguments, run.log);
    CHECK(run.exit_code == 2);
    CHECK(std::ranges::count(run.log, '\n') == 1);
  }
}

}  // namespace
}  // namespace simurgh::testing
