// Requests that would wait too long.

#include "predict/scorer.h"

#include <chrono>
#include <future>
#include <latch>
#include <memory>

#include <catch2/catch.hpp>

#include "tests/support/temporary_folder.h"
#include "tests/support/waiting.h"
#include "tests/unit/predict/versioned_model.h"

namespace simurgh::testing {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::hours kLong{1};

TEST_CASE("A request that waits or would wait too long is refused, the others are answered") {
  const TemporaryFolder folder;
  VersionedModel files(folder.Path("model"));
  const Checkpoint checkpoint = files.WriteFull(1);
  MetricRegistry registry;
  const auto model = ModelVersion::Load(checkpoint, {}, [](uint64_t, uint64_t) {
                       return absl::OkStatus();
                     }).value();
  Scorer scorer({.threads = 1}, registry);
  const auto submit = [&](milliseconds max_wait) {
    auto answer = std::make_shared<std::promise<Status>>();
    scorer.Submit(model, VersionedModel::Request(1, 1), max_wait,
                  [answer](StatusOr<ScoredRows> scored) { answer->set_value(scored.status()); });
    return answer->get_future();
  };
  // Without a batch before, the wait is unknown.
  CHECK_FALSE(scorer.Refuses(milliseconds(0)));
  REQUIRE(submit(kLong).get().ok());

  std::latch begun(1);
  std::latch end(1);
  scorer.Submit(model, VersionedModel::Request(1, 1), kLong, [&](const StatusOr<ScoredRows>&) {
    begun.count_down();
    end.wait();
  });
  begun.wait();
  CHECK_FALSE(scorer.Refuses(milliseconds(0)));  // Nothing waits.
  auto late = submit(milliseconds(1));
  const auto is_late = std::chrono::steady_clock::now() + milliseconds(1);
  auto patient = submit(kLong);
  CHECK(scorer.Refuses(milliseconds(0)));
  CHECK_FALSE(scorer.Refuses(kLong));
  auto refused = submit(milliseconds(0));
  REQUIRE(refused.wait_for(milliseconds(0)) == std::future_status::ready);
  CHECK(absl::IsResourceExhausted(refused.get()));
  REQUIRE(Eventually([&] { return std::chrono::steady_clock::now() > is_late; }));
  end.count_down();
  CHECK(absl::IsDeadlineExceeded(late.get()));
  CHECK(patient.get().ok());
}

}  // namespace
}  // namespace simurgh::testing
