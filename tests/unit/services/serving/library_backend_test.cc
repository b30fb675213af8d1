#include <future>

#include <catch2/catch.hpp>

#include "services/serving/scoring_backend.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/waiting.h"
#include "tests/unit/predict/share_servers.h"
#include "tests/unit/predict/versioned_model.h"

namespace simurgh::testing {
namespace {

bool Reaches(LibraryBackend& backend, uint64_t step) {
  return Eventually([&] { return backend.Current().step == step; });
}

StatusOr<ScoredRows> Score(LibraryBackend& backend, const LoadedVersion& version) {
  std::promise<StatusOr<ScoredRows>> answered;
  backend.Score(version, VersionedModel::Request(3, 4), std::chrono::minutes(1),
                [&](StatusOr<ScoredRows> scored) { answered.set_value(std::move(scored)); });
  return answered.get_future().get();
}

TEST_CASE("a request whose version servers have dropped gets the newest one", "[serving]") {
  const TemporaryFolder folder;
  const std::string path = folder.Path("model");
  VersionedModel writer(path);
  const Checkpoint first = writer.WriteFull(1);
  const auto servers = std::make_shared<ShareServers>(path, 2, std::chrono::seconds(10));
  MetricRegistry registry;
  ServingConfig config;
  config.model = path;
  config.poll = std::chrono::milliseconds(1);
  config.hot_row_bytes = 0;
  LibraryBackend backend(config, servers, /*program=*/nullptr, registry);
  REQUIRE(Reaches(backend, 1));
  const LoadedVersion old = backend.Current();
  LoadedVersion named = backend.Find(1);
  CHECK_FALSE(old.is_named);
  CHECK(named.is_named);
  CHECK(Score(backend, old)->step == std::nullopt);

  const Checkpoint second = writer.WriteDelta(2, first);
  REQUIRE(Reaches(backend, 2));
  servers->gone = first.checksum;
  const StatusOr<ScoredRows> again = Score(backend, old);
  REQUIRE(again.ok());
  CHECK(again->step == 2);
  CHECK(VersionedModel::VersionOf(*again) == 2);
  CHECK(Score(backend, named).status().code() == absl::StatusCode::kNotFound);
  CHECK(VersionedModel::VersionOf(Score(backend, backend.Find(2)).value()) == 2);

  // No other version helps.
  servers->gone = second.checksum;
  const Status gone = Score(backend, backend.Current()).status();
  CHECK(gone.code() == absl::StatusCode::kUnavailable);
  CHECK(gone.message() == "servers do not have the rows of version 2 any more");
}

}  // namespace
}  // namespace simurgh::testing
