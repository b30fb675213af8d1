#include "collective/rank_pipes.h"

#include <array>
#include <csignal>
#include <optional>
#include <vector>

#include <unistd.h>

#include <catch2/catch.hpp>

namespace simurgh::testing {
namespace {

using std::chrono_literals::operator""ms;
using Wait = PipeReader::Wait;

constexpr auto kTimeout = 60'000ms;

uint64_t Here() { return static_cast<uint64_t>(::getpid()); }

TEST_CASE("Messages arrive one by one in the order of writes") {
  PipeReader reader;
  PipeWriter writer;
  REQUIRE(writer.Open(Here(), reader.file_for_writer()));
  reader.Opened();
  std::array<std::byte, 3> read{};
  CHECK(reader.Read(read, 0ms) == Wait::kNothing);
  const std::array first{std::byte{1}, std::byte{2}, std::byte{3}};
  const std::vector<std::byte> longest(PipeReader::kMaxBytes, std::byte{9});
  CHECK(writer.Write(first));
  CHECK(writer.Write(longest));
  CHECK(reader.Read(read, kTimeout) == Wait::kMessage);
  CHECK(read == first);
  std::vector<std::byte> long_read(longest.size());
  CHECK(reader.Read(long_read, kTimeout) == Wait::kMessage);
  CHECK(long_read == longest);
}

TEST_CASE("A reader notices a writer's end after reading its messages") {
  const bool hangs_up = GENERATE(true, false);
  PipeReader reader;
  std::optional<PipeWriter> writer(std::in_place);
  REQUIRE(writer->Open(Here(), reader.file_for_writer()));
  reader.Opened();
  std::array<std::byte, 1> read{std::byte{4}};
  CHECK(writer->Write(read));
  if (hangs_up) {
    writer->HangUp();
  } else {
    writer.reset();
  }
  CHECK(reader.Read(read, kTimeout) == Wait::kMessage);
  CHECK(reader.Read(read, kTimeout) == Wait::kGone);
}

TEST_CASE("A writer notices a reader's end, and opens only pipes") {
  std::signal(SIGPIPE, SIG_IGN);
  PipeWriter writer;
  {
    PipeReader reader;
    REQUIRE(writer.Open(Here(), reader.file_for_writer()));
  }
  CHECK_FALSE(writer.Write(std::array{std::byte{1}}));
  CHECK_FALSE(PipeWriter().Open(Here(), -1));
}

}  // namespace
}  // namespace simurgh::testing
