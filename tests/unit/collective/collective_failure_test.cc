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

}  // namespace
}  // namespace simurgh::testing
