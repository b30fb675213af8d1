#include "services/embedding_ps/run_guard.h"

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

using Request = RunGuard::Request;
using std::chrono_literals::operator""ms;

const RunGuard::Clock::time_point kStart{};

EmbeddingPsConfig Config() { return {.run_timeout = 100ms}; }

TEST_CASE("a second run is refused until all ranks of the first have ended") {
  RunGuard guard(Config());
  REQUIRE(guard.Admit(7, Request::kPull, kStart).ok());
  REQUIRE(guard.Admit(7, Request::kPush, kStart).ok());
  const Status refused = guard.Admit(3, Request::kPull, kStart + 99ms);
  CHECK(absl::IsAborted(refused));
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("run 0000000000000007") && Catch::Contains("concurrent_runs: allow"));
  CHECK(absl::IsAborted(guard.Admit(3, Request::kPush, kStart)));
  guard.End({.run = 3, .rank = 0, .ranks = 1});  // Of the refused run.
  guard.End({.run = 7, .rank = 1, .ranks = 2});
  guard.End({.run = 7, .rank = 1, .ranks = 2});
  CHECK(absl::IsAborted(guard.Admit(3, Request::kPull, kStart)));
  guard.End({.run = 7, .rank = 0, .ranks = 2});
  CHECK(guard.Admit(7, Request::kPull, kStart).ok());  // Overlapped the end: admits no run.
  CHECK(guard.Admit(3, Request::kPull, kStart).ok());
  CHECK(absl::IsAborted(guard.Admit(7, Request::kPull, kStart)));
}

TEST_CASE("a run without requests is over after the timeout") {
  RunGuard guard(Config());
  REQUIRE(guard.Admit(7, Request::kPush, kStart).ok());
  REQUIRE(guard.Admit(7, Request::kPull, kStart + 60ms).ok());
  CHECK(absl::IsAborted(guard.Admit(8, Request::kPull, kStart + 159ms)));
  CHECK(guard.Admit(8, Request::kPull, kStart + 160ms).ok());
  CHECK(guard.Admit(8, Request::kPush, kStart + 160ms).ok());
  const Status replaced = guard.Admit(7, Request::kPush, kStart + 160ms);
  CHECK(absl::IsFailedPrecondition(replaced));
  CHECK_THAT(std::string(replaced.message()), Catch::Contains("another run changed its rows"));
}

TEST_CASE("evaluations are admitted and keep their run admitted") {
  RunGuard guard(Config());
  REQUIRE(guard.Admit(7, Request::kPush, kStart).ok());
  REQUIRE(guard.Admit(7, Request::kEvaluate, kStart + 90ms).ok());
  REQUIRE(guard.Admit(8, Request::kEvaluate, kStart + 90ms).ok());
  CHECK(absl::IsAborted(guard.Admit(8, Request::kPull, kStart + 189ms)));
  CHECK(guard.Admit(8, Request::kPull, kStart + 190ms).ok());
}

TEST_CASE("servers that meet two new runs in different order admit the same one") {
  RunGuard one(Config());
  RunGuard other(Config());
  REQUIRE(one.Admit(7, Request::kPull, kStart).ok());
  REQUIRE(other.Admit(8, Request::kPull, kStart).ok());
  CHECK(absl::IsAborted(one.Admit(8, Request::kPull, kStart)));
  CHECK(other.Admit(7, Request::kPull, kStart).ok());
  CHECK(absl::IsAborted(other.Admit(8, Request::kPull, kStart)));
}

TEST_CASE("concurrent runs are admitted where the configuration allows them") {
  EmbeddingPsConfig config = Config();
  config.concurrent_runs = true;
  RunGuard guard(config);
  CHECK(guard.Admit(7, Request::kPush, kStart).ok());
  CHECK(guard.Admit(8, Request::kPush, kStart).ok());
}

}  // namespace
}  // namespace simurgh
