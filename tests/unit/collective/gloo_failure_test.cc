// Ranks that disconnect, abort or are silent.

#include <csignal>
#include <future>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/unit/collective/rank_threads.h"

namespace simurgh::testing {
namespace {

using std::chrono_literals::operator""ms;

Status SumUntilItFails(Collective& collective) {
  std::vector<float> values(10'000, 1.0F);
  while (true) {
    SIMURGH_RETURN_IF_ERROR(collective.Sum(Channel::kGradients, values, ReducePrecision::kF32, {}));
  }
}

Status SumOften(Collective& collective, int times) {
  std::vector<float> values(10'000, 1.0F);
  for (int i = 0; i < times; ++i) {
    SIMURGH_RETURN_IF_ERROR(collective.Sum(Channel::kGradients, values, ReducePrecision::kF32, {}));
  }
  return absl::OkStatus();
}

TEST_CASE("A rank that disconnects ends the others' sums, and all errors name it") {
  const int before = GENERATE(0, 1, 20);
  const uint32_t sharers = GENERATE(0U, 4U);
  CAPTURE(before, sharers);
  const std::vector<Status> results = RunRanks(4,
                                               [&](auto& collective) {
                                                 if (collective->rank() != 2)
                                                   return SumUntilItFails(*collective);
                                                 Status status = SumOften(*collective, before);
                                                 collective.reset();
                                                 return status;
                                               },
                                               {.sharers = sharers});
  CHECK(results[2].ok());
  for (const size_t rank : {0, 1, 3}) {
    CAPTURE(rank, results[rank].ToString());
    CHECK(absl::IsUnavailable(results[rank]));
    CHECK_THAT(std::string(results[rank].message()),
               Catch::Contains("rank 2 of 4 (nn_worker.instances.2) disconnected"));
  }
}

TEST_CASE("Abort sends its reason to the other ranks") {
  const uint32_t sharers = GENERATE(0U, 2U, 3U);
  CAPTURE(sharers);
  const std::vector<Status> results =
      RunRanks(3,
               [&](auto& collective) {
                 if (collective->rank() != 1) return SumUntilItFails(*collective);
                 Status status = SumOften(*collective, 5);
                 collective->Abort(absl::InternalError("the disk is full"));
                 return status;
               },
               {.sharers = sharers});
  CHECK(results[1].ok());
  for (const size_t rank : {0, 2}) {
    CAPTURE(rank, results[rank].ToString());
    CHECK_THAT(std::string(results[rank].message()),
               Catch::Contains("rank 1 of 3") && Catch::Contains("stopped: the disk is full"));
  }
}

TEST_CASE("Abort with CANCELLED is CANCELLED on the other ranks") {
  const uint32_t sharers = GENERATE(0U, 2U);
  const std::vector<Status> results =
      RunRanks(2,
               [&](auto& collective) {
                 if (collective->rank() == 0) return SumUntilItFails(*collective);
                 collective->Abort(absl::CancelledError("training was stopped"));
                 return absl::OkStatus();
               },
               {.sharers = sharers});
  CHECK(absl::IsCancelled(results[0]));
}

TEST_CASE("Abort ends the rank's own waits on every channel") {
  const auto body = [&](auto& collective) -> Status {
    uint64_t all[2] = {};
    const uint64_t own = collective->rank();
    const auto gather = [&](Channel channel) {
      return collective->Gather(channel, std::as_bytes(std::span(&own, 1)),
                                std::as_writable_bytes(std::span(all)));
    };
    if (collective->rank() == 1) return gather(Channel::kStep);  // The other rank never calls it.
    Status loading;
    std::thread loader([&] { loading = gather(Channel::kLoading); });
    collective->Abort(absl::CancelledError("stopped here"));
    loader.join();
    return loading;
  };
  const uint32_t sharers = GENERATE(0U, 2U);
  const std::vector<Status> results = RunRanks(2, body, {.sharers = sharers});
  CHECK(results[0].message() == "stopped here");
  CHECK_THAT(std::string(results[1].message()), Catch::Contains("stopped here"));
}

TEST_CASE("After the timeout the error names the silent rank") {
  const uint32_t sharers = GENERATE(0U, 2U);
  // The silent rank waits on its loading channel until the other rank has failed.
  const std::vector<Status> results = RunRanks(
      2,
      [&](auto& collective) -> Status {
        uint64_t all[2] = {};
        const uint64_t own = 0;
        const Channel channel = collective->rank() == 0 ? Channel::kStep : Channel::kLoading;
        return collective->Gather(channel, std::as_bytes(std::span(&own, 1)),
                                  std::as_writable_bytes(std::span(all)));
      },
      {.sharers = sharers, .timeout = 1000ms});
  CAPTURE(results[0].ToString(), results[1].ToString());
  CHECK(absl::IsDeadlineExceeded(results[0]));
  CHECK_THAT(std::string(results[0].message()),
             Catch::Contains("rank 1 of 2") && Catch::Contains("sent nothing for 1000 ms"));
  CHECK_THAT(std::string(results[1].message()), Catch::Contains("rank 1 of 2"));
}

// Result of CreateGlooCollective if the other rank publishes its addresses and then does nothing.
Status CreateWithoutTheOther(uint32_t rank) {
  std::signal(SIGPIPE, SIG_IGN);
  MeetingPlace place(2);
  std::promise<void> given_up;
  const auto create = [](uint32_t of, const ExchangeAddresses& exchange) {
    const GlooOptions options{
        .rank = of, .ranks = 2, .host = "127.0.0.1", .shares_memory = true, .timeout = 500ms};
    return CreateGlooCollective(options, exchange).status();
  };
  std::thread silent([&] {
    (void)create(1 - rank, [&](std::string own) {
      auto addresses = place.Of(1 - rank)(std::move(own));
      given_up.get_future().wait();
      return addresses;
    });
  });
  Status status = create(rank, place.Of(rank));
  given_up.set_value();
  silent.join();
  return status;
}

TEST_CASE("A rank that is silent during setup is named after the timeout") {
  const uint32_t rank = GENERATE(0U, 1U);
  const Status status = CreateWithoutTheOther(rank);
  CAPTURE(rank, status.ToString());
  CHECK_FALSE(status.ok());
  CHECK_THAT(std::string(status.message()), Catch::Contains("rank " + std::to_string(1 - rank)));
}

Status Create(const GlooOptions& options, std::vector<std::string> answer) {
  return CreateGlooCollective(options, [&](const std::string& /*own*/) { return answer; }).status();
}

TEST_CASE("The host must be a loopback address unless the network is trusted") {
  const Status open = Create({.ranks = 2, .host = "0.0.0.0"}, {});
  CHECK(absl::IsInvalidArgument(open));
  CHECK_THAT(std::string(open.message()), Catch::Contains("rpc.security"));
  const Status unknown = Create({.ranks = 2, .host = "no.such.host.invalid"}, {});
  CHECK(absl::IsInvalidArgument(unknown));
  CHECK_THAT(std::string(unknown.message()), Catch::Contains("no.such.host.invalid"));
}

TEST_CASE("Invalid addresses are rejected") {
  const GlooOptions options{.ranks = 2, .host = "127.0.0.1", .timeout = 200ms};
  CHECK(absl::IsInvalidArgument(Create(options, {"one"})));
  const Status wrong = Create(options, {"one", "two"});
  CHECK(absl::IsInvalidArgument(wrong));
  CHECK_THAT(std::string(wrong.message()), Catch::Contains("rank 1"));
}

}  // namespace
}  // namespace simurgh::testing
