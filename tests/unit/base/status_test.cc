#include "base/status.h"

#include <memory>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

Status Leave(const Status& status, bool* reached) {
  SIMURGH_RETURN_IF_ERROR(status);
  *reached = true;
  return absl::OkStatus();
}

StatusOr<int> Sum(StatusOr<std::unique_ptr<int>> a, StatusOr<std::unique_ptr<int>> b) {
  SIMURGH_ASSIGN_OR_RETURN(const std::unique_ptr<int> left, std::move(a));
  SIMURGH_ASSIGN_OR_RETURN(std::unique_ptr<int> right, std::move(b));
  *right += *left;
  return *right;
}

TEST_CASE("an error returns from the function, ok continues") {
  bool reached = false;
  CHECK(Leave(absl::NotFoundError("x"), &reached).code() == absl::StatusCode::kNotFound);
  CHECK_FALSE(reached);
  CHECK(Leave(absl::OkStatus(), &reached).ok());
  CHECK(reached);
}

TEST_CASE("the error macro works as the body of an if") {
  const auto run = [](bool fail) -> Status {
    if (fail)
      SIMURGH_RETURN_IF_ERROR(absl::AbortedError("then"));
    else
      SIMURGH_RETURN_IF_ERROR(absl::CancelledError("else"));
    return absl::OkStatus();
  };
  CHECK(run(true).code() == absl::StatusCode::kAborted);
  CHECK(run(false).code() == absl::StatusCode::kCancelled);
}

TEST_CASE("values are moved out, and the first error wins") {
  CHECK(*Sum(std::make_unique<int>(2), std::make_unique<int>(3)) == 5);
  const auto sum = Sum(absl::DataLossError("left"), absl::AbortedError("right"));
  CHECK(sum.status() == absl::DataLossError("left"));
}

TEST_CASE("a context is put before the message, and only there") {
  CHECK(Annotate(absl::DataLossError("checksum"), "file a") ==
        absl::DataLossError("file a: checksum"));
  CHECK(Annotate(absl::OkStatus(), "file a").ok());
}

}  // namespace
}  // namespace simurgh
