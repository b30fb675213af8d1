// The program of skip_test.sh.

#include <string>

#include <catch2/catch.hpp>

#include "tests/support/skip.h"

namespace simurgh::testing {
namespace {

TEST_CASE("passes") { CHECK(true); }

TEST_CASE("lacks a device", "[skips]") {
  SIMURGH_SKIP("there is no device");
  FAIL("SIMURGH_SKIP must end the case");
}

TEST_CASE("skips each of its runs", "[skips]") {
  const int run = GENERATE(1, 2);
  SIMURGH_SKIP("run " + std::to_string(run));
}

TEST_CASE("fails before it skips", "[.fails]") {
  CHECK(false);
  SIMURGH_SKIP("too late");
}

}  // namespace
}  // namespace simurgh::testing
