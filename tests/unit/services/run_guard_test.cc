#include "services/embedding_ps/run_guard.h"

#include <catch2/catch.hpp>

#include "base/step_id.h"

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

// A start of training 5.
uint64_t Start(uint64_t generation) { return RunNumber(generation, 5); }

TEST_CASE("a newer start of a training takes over at once, and older ones are refused for good") {
  EmbeddingPsConfig config = Config();
  config.concurrent_runs = GENERATE(false, true);
  RunGuard guard(config);
  REQUIRE(guard.Admit(Start(2), Request::kBegin, kStart).ok());
  guard.Begin(Start(2));
  REQUIRE(guard.Admit(Start(2), Request::kPush, kStart).ok());
  CHECK(guard.Admit(Start(3), Request::kProbe, kStart).ok());
  for (const Request request :
       {Request::kProbe, Request::kBegin, Request::kEvaluate, Request::kPull, Request::kPush}) {
    const Status refused = guard.Admit(Start(2), request, kStart);
    CHECK(absl::IsFailedPrecondition(refused));
    CHECK_THAT(std::string(refused.message()),
               Catch::Contains("generation 3, has taken over; stop this one"));
  }
  CHECK(guard.Admit(Start(3), Request::kBegin, kStart).ok());
  guard.Begin(Start(3));
  CHECK(guard.Admit(Start(3), Request::kPush, kStart).ok());
  guard.End({.run = Start(3), .rank = 0, .ranks = 1});
  // Another training does not make the server forget.
  CHECK(guard.Admit(7, Request::kPush, kStart + 1ms).ok());
  CHECK(absl::IsFailedPrecondition(guard.Admit(Start(2), Request::kPush, kStart + 200ms)));
}

TEST_CASE("a new start does not take over from another training") {
  RunGuard guard(Config());
  REQUIRE(guard.Admit(7, Request::kPush, kStart).ok());
  CHECK(guard.Admit(Start(1), Request::kProbe, kStart).ok());
  CHECK(absl::IsAborted(guard.Admit(Start(1), Request::kBegin, kStart)));
  CHECK(guard.Admit(7, Request::kPush, kStart).ok());
}

TEST_CASE("a run with a generation must begin, at every server and after each restart") {
  RunGuard guard(Config());
  const auto is_lost = [&](uint64_t run, Request request) {
    return absl::IsDataLoss(guard.Admit(run, request, kStart));
  };
  CHECK(is_lost(Start(1), Request::kPull));
  CHECK(is_lost(Start(1), Request::kEvaluate));
  guard.Begin(Start(2));  // The end of a load for a start that is not the newest.
  CHECK(is_lost(Start(1), Request::kPush));
  guard.Begin(Start(1));
  CHECK(guard.Admit(Start(1), Request::kPush, kStart).ok());
  CHECK(is_lost(Start(2), Request::kEvaluate));
}

TEST_CASE("a guard remembers a limited number of trainings") {
  EmbeddingPsConfig config = Config();
  config.concurrent_runs = true;
  RunGuard guard(config);
  for (uint64_t training = 1; training < 5'000; ++training) {
    const uint64_t run = RunNumber(1, training * 0x9e3779b97f4a7c15ULL);
    REQUIRE(guard.Admit(run, Request::kBegin, kStart).ok());
    guard.Begin(run);
    REQUIRE(guard.Admit(run, Request::kPush, kStart).ok());
  }
}

}  // namespace
}  // namespace simurgh
