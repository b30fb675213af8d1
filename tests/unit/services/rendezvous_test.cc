#include "services/nn_worker/rendezvous.h"

#include <thread>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

using Clock = std::chrono::steady_clock;

TEST_CASE("A rendezvous completes when all ranks have arrived") {
  Rendezvous rendezvous(3, "a = 1\n");
  int told = 0;
  rendezvous.SetOnComplete([&] { ++told; });
  CHECK(rendezvous.Arrive(1, 3, "a = 1\n", "b").ok());
  CHECK(rendezvous.Missing() == "ranks 0, 2");
  CHECK_FALSE(rendezvous.Addresses().has_value());
  CHECK(rendezvous.Arrive(0, 3, "a = 1\n", "a").ok());
  CHECK(rendezvous.Arrive(1, 3, "a = 1\n", "B").ok());  // The rank restarted.
  CHECK(told == 0);
  CHECK(rendezvous.Arrive(2, 3, "a = 1\n", "c").ok());
  CHECK(told == 1);
  CHECK(*rendezvous.Addresses() == std::vector<std::string>{"a", "B", "c"});
  CHECK(*rendezvous.Await(Clock::now(), {}) == *rendezvous.Addresses());
  // The answer may have been lost; another process is another matter.
  CHECK(rendezvous.Arrive(1, 3, "a = 1\n", "B").ok());
  CHECK(absl::IsFailedPrecondition(rendezvous.Arrive(1, 3, "a = 1\n", "b")));
}

TEST_CASE("Ranks that differ in number or plan are rejected") {
  Rendezvous rendezvous(2, "a = 1\n");
  CHECK(absl::IsInvalidArgument(rendezvous.Arrive(1, 3, "a = 1\n", "x")));
  CHECK(absl::IsInvalidArgument(rendezvous.Arrive(2, 2, "a = 1\n", "x")));
  const Status other = rendezvous.Arrive(1, 2, "a = 2\n", "x");
  CHECK(absl::IsInvalidArgument(other));
  CHECK_THAT(std::string(other.message()),
             Catch::Contains("configurations differ: a = 1 (rank 0), 2 (rank 1)"));
  CHECK(rendezvous.Missing() == "ranks 0, 1");
}

TEST_CASE("A waiting rank learns which ranks are missing, or of a stop") {
  Rendezvous rendezvous(2, "a = 1\n");
  const auto late = rendezvous.Await(Clock::now(), {});
  CHECK(absl::IsDeadlineExceeded(late.status()));
  CHECK_THAT(std::string(late.status().message()), Catch::Contains("ranks 0, 1"));
  std::stop_source stop;
  stop.request_stop();
  CHECK(absl::IsCancelled(rendezvous.Await(Clock::time_point::max(), stop.get_token()).status()));

  StatusOr<std::vector<std::string>> all;
  CHECK(rendezvous.Arrive(0, 2, "a = 1\n", "a").ok());
  std::thread waiting([&] { all = rendezvous.Await(Clock::time_point::max(), {}); });
  CHECK(rendezvous.Arrive(1, 2, "a = 1\n", "b").ok());
  waiting.join();
  CHECK(all->size() == 2);
}

}  // namespace
}  // namespace simurgh
