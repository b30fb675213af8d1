#include "base/system_library.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "tests/support/temporary_folder.h"

namespace simurgh {
namespace {

constexpr char kVariable[] = "SIMURGH_CUDA_LIBRARIES";

// The path of the machine's mathematical library.
std::string MathLibrary() {
  Dl_info info{};
  REQUIRE(dladdr(reinterpret_cast<const void*>(static_cast<double (*)(double)>(&std::cos)),
                 &info) != 0);
  return info.dli_fname;
}

TEST_CASE("a library is found by the loader") {
  double (*cosine)(double) = nullptr;
  const Status loaded = LoadLibrary("Mathematics", "libm.so.6", [&](void* library) {
    return FindFunction(library, "cos", &cosine);
  });
  CAPTURE(loaded.ToString());
  REQUIRE(loaded.ok());
  CHECK(cosine(0.5) == std::cos(0.5));
}

TEST_CASE("a library that the loader does not find is sought in the variable's folders") {
  const TemporaryFolder folder;
  std::filesystem::copy_file(MathLibrary(), folder.Path("libsimurgh-mathematics.so.1"));
  const auto load = [] {
    double (*cosine)(double) = nullptr;
    return LoadLibrary("Mathematics", "libsimurgh-mathematics.so.1",
                       [&](void* library) { return FindFunction(library, "cos", &cosine); });
  };
  CHECK(absl::IsNotFound(load()));
  REQUIRE(setenv(kVariable, ("/none-such:" + folder.path()).c_str(), 1) == 0);
  CHECK(load().ok());
  REQUIRE(unsetenv(kVariable) == 0);
}

TEST_CASE("an error names what is wrong with the library in each place") {
  void (*none)() = nullptr;
  REQUIRE(setenv(kVariable, "/none-such", 1) == 0);
  const Status loaded = LoadLibrary("Mathematics", "libm.so.6", [&](void* library) {
    return FindFunction(library, "simurgh_has_no_such_function", &none);
  });
  REQUIRE(unsetenv(kVariable) == 0);
  REQUIRE(absl::IsNotFound(loaded));
  CHECK_THAT(std::string(loaded.message()),
             Catch::StartsWith("Mathematics cannot be loaded (libm.so.6 lacks a function") &&
                 Catch::Contains("/none-such/libm.so.6") &&
                 Catch::Contains("/usr/local/cuda/lib64/libm.so.6") && Catch::Contains(kVariable));
}

}  // namespace
}  // namespace simurgh
