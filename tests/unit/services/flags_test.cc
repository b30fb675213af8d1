#include <sstream>

#include <boost/program_options/value_semantic.hpp>
#include <catch2/catch.hpp>

#include "base/version.h"
#include "services/runtime/daemon.h"

namespace simurgh {
namespace {

namespace po = boost::program_options;

ProgramUsage Usage() {
  ProgramUsage usage;
  usage.program = "simurgh-test";
  usage.summary = "Does nothing.";
  return usage;
}

StatusOr<std::optional<DaemonFlags>> Parse(std::vector<const char*> arguments, std::ostream& out,
                                           const ProgramUsage& usage = Usage()) {
  arguments.insert(arguments.begin(), "simurgh-test");
  return ParseFlags(usage, static_cast<int>(arguments.size()), arguments.data(), out);
}

TEST_CASE("flags are parsed") {
  std::ostringstream out;
  const auto flags = Parse({"--config", "a.yaml", "--index=3", "--set", "x.y=1", "--set", "z=-2",
                            "--check-config", "--log-level", "debug"},
                           out);
  REQUIRE(flags.ok());
  REQUIRE(flags->has_value());
  CHECK((*flags)->config_path == "a.yaml");
  CHECK((*flags)->index == 3);
  CHECK((*flags)->overrides == std::vector<std::string>{"x.y=1", "z=-2"});
  CHECK((*flags)->check_config);
  CHECK((*flags)->log_level == "debug");
  CHECK(out.str().empty());
}

TEST_CASE("only --config is needed") {
  std::ostringstream out;
  const auto flags = Parse({"--config", "a.yaml"}, out);
  REQUIRE(flags.ok());
  REQUIRE(flags->has_value());
  CHECK((*flags)->index == 0);
  CHECK((*flags)->overrides.empty());
  CHECK_FALSE((*flags)->check_config);
  CHECK((*flags)->log_level == "info");
}

TEST_CASE("a command-line error is one line") {
  struct Wrong {
    std::vector<const char*> arguments;
    const char* message;
  };
  const Wrong wrong = GENERATE(values<Wrong>({
      {{}, "--config FILE is missing"},
      {{"--config"}, "--config"},
      {{"--config", "a.yaml", "--conf", "b.yaml"}, "--conf"},  // No abbreviations.
      {{"--config", "a.yaml", "--checkconfig"}, "--checkconfig"},
      {{"--config", "a.yaml", "stray"}, "unexpected argument 'stray'"},
      {{"--config", "a.yaml", "--index", "-1"},
       "--index: '-1' is not an integer from 0 to 4294967295"},
      {{"--config", "a.yaml", "--index", "4294967296"},
       "--index: '4294967296' is not an integer from 0 to 4294967295"},
      {{"--config", "a.yaml", "--index", "one"},
       "--index: 'one' is not an integer from 0 to 4294967295"},
      {{"--config", "a.yaml", "--config", "b.yaml"}, "--config"},
  }));
  std::ostringstream out;
  const auto flags = Parse(wrong.arguments, out);
  REQUIRE_FALSE(flags.ok());
  CHECK(flags.status().code() == absl::StatusCode::kInvalidArgument);
  const std::string message(flags.status().message());
  CHECK_THAT(message, Catch::Contains(wrong.message));
  CHECK_THAT(message, Catch::Contains("--help"));
  CHECK(message.find('\n') == std::string::npos);
  CHECK(out.str().empty());
}

TEST_CASE("--describe-config prints the reference of all keys without a configuration") {
  std::ostringstream out;
  const auto flags = Parse({"--describe-config"}, out);
  REQUIRE(flags.ok());
  CHECK_FALSE(flags->has_value());
  CHECK_THAT(out.str(), Catch::Contains("| `batch_size` | integer from 1 to 65535 | `128` |"));
}

TEST_CASE("help and version need no other option") {
  std::ostringstream help;
  const auto asked = Parse({"--help"}, help);
  REQUIRE(asked.ok());
  CHECK_FALSE(asked->has_value());
  for (const char* part : {"Does nothing.", "Usage: simurgh-test --config FILE", "--index",
                           "--set KEY=VALUE", "--check-config", "--log-level", "Exit codes:"}) {
    CHECK_THAT(help.str(), Catch::Contains(part));
  }
  CHECK(help.str().find("stray") == std::string::npos);
  std::ostringstream version;
  const auto other = Parse({"--version"}, version);
  REQUIRE(other.ok());
  CHECK_FALSE(other->has_value());
  CHECK(version.str() == std::string("simurgh-test ") + Version() + "\n");
}

TEST_CASE("a daemon can add options") {
  bool standalone = false;
  ProgramUsage usage = Usage();
  usage.own_options.add_options()("standalone", po::bool_switch(&standalone), "All in one.");
  std::ostringstream out;
  REQUIRE(Parse({"--config", "a.yaml"}, out, usage).ok());
  CHECK_FALSE(standalone);
  REQUIRE(Parse({"--config", "a.yaml", "--standalone"}, out, usage).ok());
  CHECK(standalone);
  REQUIRE(Parse({"--help"}, out, usage).ok());
  CHECK_THAT(out.str(), Catch::Contains("--standalone"));
}

}  // namespace
}  // namespace simurgh
