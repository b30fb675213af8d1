#include "services/nn_worker/rendezvous.h"

#include <thread>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

using Clock = std::chrono::steady_clock;

TEST_CASE("A rendezvous completes when all ranks have arrived") {
  Rendezvous meeting(3, "a = 1\n");
  int told = 0;
  meeting.SetOnComplete([&] { ++told; });
  CHECK(meeting.Arrive(1, 3, "a = 1\n", "b").ok());
  CHECK(meeting.Missing() == "ranks 0, 2");
  CHECK_FALSE(meeting.Addresses().has_value());
  CHECK(meeting.Arrive(0, 3, "a = 1\n", "a").ok());
  CHECK(meeting.Arrive(1, 3, "a = 1\n", "B").ok());  // The rank restarted.
  CHECK(told == 0);
  CHECK(meeting.Arrive(2, 3, "a = 1\n", "c").ok());
  CHECK(told == 1);
  CHECK(*meeting.Addresses() == std::vector<std::string>{"a", "B", "c"});
  CHECK(*meeting.Await(Clock::now(), {}) == *meeting.Addresses());
  // The answer may have been lost; another process is another matter.
  CHECK(meeting.Arrive(1, 3, "a = 1\n", "B").ok());
  CHECK(absl::IsFailedPrecondition(meeting.Arrive(1, 3, "a = 1\n", "b")));
}

TEST_CASE("Ranks that differ in number or plan are rejected") {
  Rendezvous meeting(2, "a = 1\n");
  CHECK(absl::IsInvalidArgument(meeting.Arrive(1, 3, "a = 1\n", "x")));
  CHECK(absl::IsInvalidArgument(meeting.Arrive(2, 2, "a = 1\n", "x")));
  const Status other = meeting.Arrive(1, 2, "a = 2\n", "x");
  CHECK(absl::IsInvalidArgument(other));
  CHECK_THAT(std::string(other.message()),
             Catch::Contains("configurations differ: a = 1 (rank 0), 2 (rank 1)"));
  CHECK(meeting.Missing() == "ranks 0, 1");
}

TEST_CASE("A waiting rank learns which ranks are missing, or of a stop") {
  Rendezvous meeting(2, "a = 1\n");
  const auto late = meeting.Await(Clock::now(), {});
  CHECK(absl::IsDeadlineExceeded(late.status()));
  CHECK_THAT(std::string(late.status().message()), Catch::Contains("ranks 0, 1"));
  std::stop_source stop;
  stop.request_stop();
  CHECK(absl::IsCancelled(meeting.Await(Clock::time_point::max(), stop.get_token()).status()));

  StatusOr<std::vector<std::string>> all;
  CHECK(meeting.Arrive(0, 2, "a = 1\n", "a").ok());
  std::thread waiting([&] { all = meeting.Await(Clock::time_point::max(), {}); });
  CHECK(meeting.Arrive(1, 2, "a = 1\n", "b").ok());
  waiting.join();
  CHECK(all->size() == 2);
}

}  // namespace
}  // namespace simurgh
