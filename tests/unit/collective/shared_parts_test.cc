#include "collective/shared_parts.h"

#include <array>
#include <csignal>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/unit/collective/rank_threads.h"

namespace simurgh::testing {
namespace {

// Every rank sends a byte, then overwrites it. Returns what each rank then reads of rank 0's.
StatusOr<std::byte> ReadAfterRank0HasWrittenAgain(uint32_t rank, bool shares, Channel channel,
                                                  MeetingPlace& place) {
  SIMURGH_ASSIGN_OR_RETURN(
      const auto mesh,
      GlooMesh::Connect({.rank = rank, .ranks = 2, .host = "127.0.0.1"}, place.Of(rank)));
  SharedParts shared(*mesh, shares);
  SIMURGH_RETURN_IF_ERROR(shared.Meet());
  const std::span<std::byte> own = shared.Outgoing(channel, 1);
  own[0] = std::byte{1};
  SharedParts::Parts parts(2);
  parts.outgoing.assign(2, own);
  parts.expected.assign(2, 1);
  SIMURGH_RETURN_IF_ERROR(shared.Exchange(channel, parts));
  own[0] = std::byte{2};
  SharedParts::Parts written(2);
  const std::byte here{};
  written.outgoing.assign(2, std::span(&here, 1));
  written.expected.assign(2, 1);
  SIMURGH_RETURN_IF_ERROR(mesh->Exchange(Channel::kStep, written));
  const std::byte read = rank == 0 ? own[0] : parts.incoming[0][0];
  // Waits until all ranks have read.
  SIMURGH_RETURN_IF_ERROR(mesh->Exchange(Channel::kStep, written));
  return read;
}

std::byte WhatRank1Reads(bool shares, Channel channel) {
  std::signal(SIGPIPE, SIG_IGN);
  MeetingPlace place(2);
  std::array<StatusOr<std::byte>, 2> reads;
  std::thread other([&] { reads[1] = ReadAfterRank0HasWrittenAgain(1, shares, channel, place); });
  reads[0] = ReadAfterRank0HasWrittenAgain(0, shares, channel, place);
  other.join();
  INFO(reads[0].status().ToString() << ", " << reads[1].status().ToString());
  REQUIRE(reads[0].ok());
  REQUIRE(reads[1].ok());
  return *reads[1];
}

TEST_CASE("Gradients are read in shared memory, and other messages are copied") {
  CHECK(WhatRank1Reads(true, Channel::kGradients) == std::byte{2});
  CHECK(WhatRank1Reads(true, Channel::kWatch) == std::byte{1});
  CHECK(WhatRank1Reads(false, Channel::kGradients) == std::byte{1});
}

TEST_CASE("A rank that is silent during the exchange of offers is named after the timeout") {
  std::signal(SIGPIPE, SIG_IGN);
  const bool shares = GENERATE(false, true);
  MeetingPlace place(2);
  const auto connect = [&](uint32_t rank) {
    return GlooMesh::Connect(
        {.rank = rank, .ranks = 2, .host = "127.0.0.1", .timeout = std::chrono::milliseconds(500)},
        place.Of(rank));
  };
  StatusOr<std::unique_ptr<GlooMesh>> silent;
  std::thread other([&] { silent = connect(1); });
  const auto mesh = connect(0);
  other.join();
  REQUIRE(mesh.ok());
  REQUIRE(silent.ok());
  const Status met = SharedParts(**mesh, shares).Meet();
  CAPTURE(shares, met.ToString());
  CHECK(absl::IsDeadlineExceeded(met));
  CHECK_THAT(std::string(met.message()),
             Catch::Contains("rank 1 of 2") && Catch::Contains("sent nothing for 500 ms"));
}

}  // namespace
}  // namespace simurgh::testing
