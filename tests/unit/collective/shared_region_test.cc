#include "collective/shared_region.h"

#include <string>

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

namespace simurgh::testing {
namespace {

constexpr size_t kSize = 1'000'000;

TEST_CASE("Writes to a region are visible where it was opened") {
  const auto own = SharedRegion::Create(kSize);
  REQUIRE(own != nullptr);
  const auto opened = SharedRegion::Open(own->key(), kSize);
  REQUIRE(opened != nullptr);
  REQUIRE(opened->bytes().size() == kSize);
  CHECK(opened->bytes().data() != own->bytes().data());
  CHECK(opened->bytes()[kSize - 1] == std::byte{0});
  own->bytes()[kSize - 1] = std::byte{7};
  CHECK(opened->bytes()[kSize - 1] == std::byte{7});
}

TEST_CASE("A region lives while another process has it open") {
  auto own = SharedRegion::Create(kSize);
  REQUIRE(own != nullptr);
  own->bytes()[3] = std::byte{9};
  const auto opened = SharedRegion::Open(own->key(), kSize);
  const SharedRegion::Key key = own->key();
  own.reset();
  REQUIRE(opened != nullptr);
  CHECK(opened->bytes()[3] == std::byte{9});
  CHECK(SharedRegion::Open(key, kSize) == nullptr);
}

TEST_CASE("A region cannot be shortened") {
  const auto own = SharedRegion::Create(kSize);
  REQUIRE(own != nullptr);
  const std::string path = absl::StrCat("/proc/self/fd/", own->key().file);
  CHECK(::truncate(path.c_str(), 0) != 0);
  CHECK(own->bytes()[kSize - 1] == std::byte{0});
}

TEST_CASE("A wrong key opens nothing") {
  const auto own = SharedRegion::Create(kSize);
  REQUIRE(own != nullptr);
  SharedRegion::Key other = own->key();
  other.secret += 1;  // A region with the same process and file number, as in another container.
  CHECK(SharedRegion::Open(other, kSize) == nullptr);
  CHECK(SharedRegion::Open(own->key(), kSize + 1) == nullptr);
  CHECK(SharedRegion::Open({}, kSize) == nullptr);
  int pipe[2] = {};
  REQUIRE(::pipe(pipe) == 0);
  other = own->key();
  other.file = pipe[0];
  CHECK(SharedRegion::Open(other, kSize) == nullptr);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

}  // namespace
}  // namespace simurgh::testing
