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

constexpr auto kPatience = 60'000ms;  // Nobody waits so long.

uint64_t Here() { return static_cast<uint64_t>(::getpid()); }

TEST_CASE("Messages come one by one, as they were written") {
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
  CHECK(reader.Read(read, kPatience) == Wait::kMessage);
  CHECK(read == first);
  std::vector<std::byte> long_read(longest.size());
  CHECK(reader.Read(long_read, kPatience) == Wait::kMessage);
  CHECK(long_read == longest);
}

TEST_CASE("A writer that hangs up, or is gone, is heard behind what it has written") {
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
  CHECK(reader.Read(read, kPatience) == Wait::kMessage);
  CHECK(reader.Read(read, kPatience) == Wait::kGone);
}

TEST_CASE("A reader that is gone is noticed, and what is no pipe is not opened") {
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
