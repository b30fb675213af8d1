#include "simurgh/base/system_library.h"

#include <array>
#include <cmath>
#include <string>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

TEST_CASE("the first library that has all functions is taken") {
  double (*cosine)(double) = nullptr;
  const std::array names = {"libnone-such.so.1", "libm.so.6"};
  const Status loaded = LoadLibrary(
      "Mathematics", names, [&](void* library) { return FindFunction(library, "cos", &cosine); });
  CAPTURE(loaded.ToString());
  REQUIRE(loaded.ok());
  CHECK(cosine(0.5) == std::cos(0.5));
}

TEST_CASE("an error names what is wrong with each library") {
  void (*none)() = nullptr;
  const std::array names = {"libnone-such.so.1", "libm.so.6"};
  const Status loaded = LoadLibrary("Mathematics", names, [&](void* library) {
    return FindFunction(library, "simurgh_has_no_such_function", &none);
  });
  REQUIRE(absl::IsNotFound(loaded));
  CHECK_THAT(std::string(loaded.message()),
             Catch::StartsWith("Mathematics cannot be loaded (libnone-such.so.1") &&
                 Catch::Contains("libm.so.6 lacks a function") &&
                 Catch::Contains("LD_LIBRARY_PATH"));
}

}  // namespace
}  // namespace simurgh
