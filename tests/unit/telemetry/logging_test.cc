#include "telemetry/logging.h"

#include <sstream>
#include <thread>

#include <spdlog/sinks/ostream_sink.h>

#include <catch2/catch.hpp>

#include "base/log.h"
#include "base/thread.h"
#include "telemetry/log_format.h"

namespace simurgh {
namespace {

TEST_CASE("a line holds time, level, service, thread and message") {
  std::ostringstream out;
  spdlog::logger logger("embedding-ps", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  logger.set_formatter(internal::MakeLogFormatter());
  std::thread([&logger] {
    SetThreadName("partition-0");
    logger.warn("took {} ms", 12);
    logger.error("broken");
  }).join();
  std::istringstream lines(out.str());
  std::string first, second, rest;
  REQUIRE(std::getline(lines, first));
  REQUIRE(std::getline(lines, second));
  CHECK_FALSE(std::getline(lines, rest));
  CHECK_THAT(first, Catch::Matches("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z warn  "
                                   "embedding-ps partition-0: took 12 ms"));
  CHECK_THAT(second, Catch::Matches(".*Z error embedding-ps partition-0: broken"));
}

TEST_CASE("a message cannot break out of its line") {
  CHECK(internal::EscapeControl("plain, \xc3\xa9 and \\ stay") == "plain, \xc3\xa9 and \\ stay");
  CHECK(internal::EscapeControl("a\nb\tc\x1b[0m\x7f") == "a\\nb\\tc\\x1b[0m\\x7f");
}

TEST_CASE("a line of JSON holds the same, whatever the message is") {
  std::ostringstream out;
  spdlog::logger logger("embedding-ps/0", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  logger.set_formatter(internal::MakeLogFormatter(/*is_json=*/true));
  std::thread([&logger] {
    SetThreadName("partition-0");
    logger.warn("a \"b\" \\ c\nd \xff");
  }).join();
  CHECK_THAT(out.str(),
             Catch::Matches(R"(\{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",)"
                            R"("level":"warn","service":"embedding-ps/0","thread":"partition-0",)"
                            R"("message":"a \\"b\\" \\\\ c\\nd \\u00ff"\}\n)"));
}

TEST_CASE("levels are taken by name, and an unknown one changes nothing") {
  REQUIRE(InitLogging("test", "warn").ok());
  CHECK(spdlog::default_logger()->level() == spdlog::level::warn);
  const Status status = InitLogging("other", "loud");
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()), Catch::Contains("'loud'") && Catch::Contains("debug"));
  CHECK(spdlog::default_logger()->name() == "test");
  for (const char* level : {"trace", "debug", "info", "error", "off"}) {
    CHECK(InitLogging("test", level).ok());
  }
  CHECK(InitLogging("test", "info", "json").ok());
  CHECK_THAT(std::string(InitLogging("test", "info", "xml").message()),
             Catch::Contains("'xml'") && Catch::Contains("text or json"));
}

}  // namespace
}  // namespace simurgh
