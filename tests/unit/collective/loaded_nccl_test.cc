#include <catch2/catch.hpp>

#include "collective/nccl_library.h"
#include "tests/support/skip.h"

namespace simurgh::testing {
namespace {

TEST_CASE("the installed NCCL has all functions in use") {
  const StatusOr<NcclLibrary*> nccl = LoadNccl();
  if (absl::IsNotFound(nccl.status()) &&
      nccl.status().message().find("lacks a function") == absl::string_view::npos) {
    SIMURGH_SKIP(nccl.status().message());
  }
  INFO(std::string(nccl.status().message()));
  REQUIRE(nccl.ok());
  const StatusOr<NcclId> id = (*nccl)->NewId();
  INFO(std::string(id.status().message()));
  CHECK(id.ok());
}

}  // namespace
}  // namespace simurgh::testing
