#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include <catch2/catch.hpp>

#include "base/mutex.h"
#include "base/random.h"
#include "tests/unit/collective/rank_threads.h"

namespace simurgh::testing {
namespace {

// Plausible gradients of a rank; the same in every call.
std::vector<float> ValuesOf(uint32_t rank, size_t count, uint64_t round = 0) {
  Random random(1 + rank + 1'000 * round);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-53 - 0.5);
  }
  return values;
}

std::vector<float> SumInOrder(uint32_t ranks, size_t count, uint64_t round = 0) {
  std::vector<float> sums(count);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const std::vector<float> values = ValuesOf(rank, count, round);
    for (size_t i = 0; i < count; ++i) sums[i] += values[i];
  }
  return sums;
}

void CheckAllOk(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) CHECK(status.ToString() == "OK");
}

TEST_CASE("f32 sums are added in rank order, with the same bits on every rank") {
  const uint32_t ranks = GENERATE(2U, 3U, 4U);
  const size_t count = GENERATE(size_t{0}, size_t{1}, size_t{3}, size_t{5}, size_t{100'003});
  const uint32_t sharers = GENERATE_COPY(0U, 2U, ranks);
  CAPTURE(ranks, count, sharers);
  std::vector<std::vector<float>> sums(ranks);
  const auto sum = [&](auto& collective) {
    std::vector<float>& own = sums[collective->rank()];
    own = ValuesOf(collective->rank(), count);
    return collective->Sum(Channel::kGradients, own, ReducePrecision::kF32, {});
  };
  CheckAllOk(RunRanks(ranks, sum, {.sharers = sharers}));
  for (const auto& own : sums) CHECK(own == SumInOrder(ranks, count));
}

TEST_CASE("bf16 and int8 sums are close to f32, with the same bits on every rank") {
  // Half a unit of each value and of the sum, or half a level.
  const std::pair<ReducePrecision, double> kind =
      GENERATE(std::pair(ReducePrecision::kBf16, 3 * 0x1p-9 + 1.5 * 0x1p-8),
               std::pair(ReducePrecision::kInt8, 3 * 0.5 / 255 + 1.5 / 255));
  constexpr uint32_t kRanks = 3;
  constexpr size_t kCount = 10'000;
  std::vector<std::vector<float>> sums(kRanks);
  CheckAllOk(RunRanks(kRanks, [&](auto& collective) {
    std::vector<float>& own = sums[collective->rank()];
    own = ValuesOf(collective->rank(), kCount);
    return collective->Sum(Channel::kGradients, own, kind.first, {});
  }));
  const std::vector<float> expected = SumInOrder(kRanks, kCount);
  CHECK(sums[0] != expected);
  CHECK(sums[0] == sums[1]);
  CHECK(sums[0] == sums[2]);
  double worst = 0;
  for (size_t i = 0; i < kCount; ++i) {
    worst = std::max(worst, std::abs(double{sums[0][i]} - expected[i]));
  }
  CHECK(worst <= kind.second);
}

// The largest error of the total of `rounds` calls' sums.
double WorstDrift(bool with_residual, size_t rounds) {
  constexpr uint32_t kRanks = 2;
  constexpr size_t kCount = 1'500;
  std::vector<std::vector<double>> totals(kRanks, std::vector<double>(kCount));
  CheckAllOk(RunRanks(kRanks, [&](auto& collective) -> Status {
    std::vector<float> residual(with_residual ? kCount : 0);
    for (size_t round = 0; round < rounds; ++round) {
      // Equal values in every round accumulate rounding errors.
      std::vector<float> values = ValuesOf(collective->rank(), kCount);
      SIMURGH_RETURN_IF_ERROR(
          collective->Sum(Channel::kGradients, values, ReducePrecision::kInt8, residual));
      for (size_t i = 0; i < kCount; ++i) totals[collective->rank()][i] += values[i];
    }
    return absl::OkStatus();
  }));
  const std::vector<float> expected = SumInOrder(kRanks, kCount);
  double worst = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double drift = totals[0][i] - static_cast<double>(rounds) * expected[i];
    worst = std::max(worst, std::abs(drift));
  }
  return worst;
}

TEST_CASE("Residuals keep rounding errors from accumulating") {
  constexpr size_t kRounds = 100;
  // The residual is missing at the end: half a level per encoding.
  CHECK(WorstDrift(true, kRounds) < 3.0 / 255);
  CHECK(WorstDrift(false, kRounds) > 20.0 / 255);
}

TEST_CASE("Values that are not finite give sums that are not finite") {
  const auto precision =
      GENERATE(ReducePrecision::kF32, ReducePrecision::kBf16, ReducePrecision::kInt8);
  std::vector<std::vector<float>> sums(2, std::vector<float>(2'000, 1.0F));
  std::vector<std::vector<float>> residuals(2, std::vector<float>(2'000));
  sums[1][3] = std::numeric_limits<float>::quiet_NaN();
  CheckAllOk(RunRanks(2, [&](auto& collective) {
    const uint32_t rank = collective->rank();
    return collective->Sum(Channel::kGradients, sums[rank], precision, residuals[rank]);
  }));
  for (int rank : {0, 1}) {
    CHECK(std::isnan(sums[rank][3]));
    CHECK(sums[rank][1'999] == 2.0F);
    for (const float value : residuals[rank]) REQUIRE(std::isfinite(value));
  }
}

TEST_CASE("Bytes are gathered, and doubles summed, in the order of the ranks") {
  constexpr uint32_t kRanks = 4;
  std::vector<std::vector<uint64_t>> gathered(kRanks, std::vector<uint64_t>(kRanks));
  std::vector<std::vector<double>> sums(kRanks);
  CheckAllOk(RunRanks(kRanks, [&](auto& collective) -> Status {
    const uint32_t rank = collective->rank();
    const uint64_t own = 100 + rank;
    SIMURGH_RETURN_IF_ERROR(collective->Gather(Channel::kStep, std::as_bytes(std::span(&own, 1)),
                                               std::as_writable_bytes(std::span(gathered[rank]))));
    sums[rank] = {1e16, 1.0 + rank};
    return collective->Sum(Channel::kStep, sums[rank]);
  }));
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    CHECK(gathered[rank] == std::vector<uint64_t>{100, 101, 102, 103});
    CHECK(sums[rank] == std::vector<double>{4e16, 10.0});
  }
}

TEST_CASE("Channels do not wait for each other") {
  constexpr uint32_t kRanks = 3;
  constexpr int kRounds = 50;
  CheckAllOk(RunRanks(kRanks, [&](auto& collective) -> Status {
    // Rank 0 is busy on one channel while the others are in another.
    std::vector<Status> results(kChannels);
    std::vector<std::thread> threads;
    for (size_t c = 0; c < kChannels; ++c) {
      threads.emplace_back([&, c] {
        for (int round = 0; round < kRounds && results[c].ok(); ++round) {
          std::vector<float> values = ValuesOf(collective->rank(), 10 + c * 1'000, round);
          results[c] = collective->Sum(static_cast<Channel>(c), values, ReducePrecision::kF32, {});
          if (results[c].ok() && values != SumInOrder(kRanks, 10 + c * 1'000, round)) {
            results[c] = absl::InternalError("a wrong sum");
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (Status& result : results) SIMURGH_RETURN_IF_ERROR(std::move(result));
    return absl::OkStatus();
  }));
}

TEST_CASE("Sums of any lengths follow one another") {
  const uint32_t ranks = GENERATE(2U, 3U);
  const uint32_t sharers = GENERATE_COPY(0U, 2U, ranks);
  CAPTURE(ranks, sharers);
  // Growing and shrinking lengths, also with fewer values than ranks.
  const std::vector<size_t> counts{1, 100'000, 7, 0, 300'000, 300'000, 0, 2, 100'000, 400'000};
  const auto sum_all = [&](auto& collective) -> Status {
    for (size_t round = 0; round < counts.size(); ++round) {
      std::vector<float> values = ValuesOf(collective->rank(), counts[round], round);
      SIMURGH_RETURN_IF_ERROR(
          collective->Sum(Channel::kGradients, values, ReducePrecision::kF32, {}));
      if (values != SumInOrder(ranks, counts[round], round)) {
        return absl::InternalError("a wrong sum");
      }
    }
    return absl::OkStatus();
  };
  CheckAllOk(RunRanks(ranks, sum_all, {.sharers = sharers}));
}

// A one-time event between threads.
class Signal {
 public:
  void Give() {
    const MutexLock lock(mutex_);
    given_ = true;
    changed_.NotifyAll();
  }
  void Await() {
    const MutexLock lock(mutex_);
    while (!given_) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool given_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST_CASE("Sum calls `meanwhile` before it waits for other ranks") {
  const uint32_t ranks = GENERATE(2U, 3U);
  const uint32_t sharers = GENERATE_COPY(0U, 2U, ranks);
  const auto precision = GENERATE(ReducePrecision::kF32, ReducePrecision::kBf16);
  CAPTURE(ranks, sharers, precision);
  // Rank 0 waits for the others, which start after its `meanwhile`.
  Signal begin;
  std::vector<int> calls(ranks);
  const auto sum = [&](auto& collective) {
    const uint32_t rank = collective->rank();
    if (rank != 0) begin.Await();
    std::vector<float> values(1'000, 1.0F);
    return collective->Sum(Channel::kGradients, values, precision, {}, [&] {
      ++calls[rank];
      begin.Give();
    });
  };
  CheckAllOk(RunRanks(ranks, sum, {.sharers = sharers}));
  CHECK(calls == std::vector<int>(ranks, 1));
}

TEST_CASE("Sum calls `meanwhile` after it has sent its values") {
  const uint32_t sharers = GENERATE(0U, 2U);
  CAPTURE(sharers);
  // With two ranks in f32 the peer needs nothing else, once its buffer is large enough.
  Signal ended;
  const auto sum = [&](auto& collective) -> Status {
    std::vector<float> values(1'000, 1.0F);
    SIMURGH_RETURN_IF_ERROR(
        collective->Sum(Channel::kGradients, values, ReducePrecision::kF32, {}));
    const bool waits = collective->rank() == 0;
    const Status status =
        collective->Sum(Channel::kGradients, values, ReducePrecision::kF32, {}, [&] {
          if (waits) ended.Await();
        });
    if (!waits) ended.Give();
    return status;
  };
  CheckAllOk(RunRanks(2, sum, {.sharers = sharers}));
}

TEST_CASE("A rank that has finished does not disturb the last sum of another") {
  const uint32_t sharers = GENERATE(0U, 2U);
  CAPTURE(sharers);
  // Rank 1 waits within its call until rank 0 has finished.
  Signal finished;
  std::vector<float> sums(1'000, 1.0F);
  const auto sum = [&](auto& collective) -> Status {
    std::vector<float> values(1'000, 2.0F);
    if (collective->rank() == 1) {
      return collective->Sum(Channel::kGradients, sums, ReducePrecision::kF32, {},
                             [&] { finished.Await(); });
    }
    Status status = collective->Sum(Channel::kGradients, values, ReducePrecision::kF32, {});
    collective.reset();
    finished.Give();
    return status;
  };
  CheckAllOk(RunRanks(2, sum, {.sharers = sharers}));
  CHECK(sums == std::vector<float>(1'000, 3.0F));
}

TEST_CASE("A single rank keeps its values") {
  const auto collective = NewLocalCollective();
  std::vector<float> values{1, 2};
  CHECK(collective->Sum(Channel::kStep, values, ReducePrecision::kInt8, {}).ok());
  CHECK(values == std::vector<float>{1, 2});
  CHECK(collective->ranks() == 1);
  const uint32_t own = 7;
  uint32_t all = 0;
  CHECK(collective
            ->Gather(Channel::kStep, std::as_bytes(std::span(&own, 1)),
                     std::as_writable_bytes(std::span(&all, 1)))
            .ok());
  CHECK(all == 7);
  collective->Abort(absl::CancelledError("enough"));
  CHECK(collective->Sum(Channel::kStep, values, ReducePrecision::kF32, {}).message() == "enough");
}

}  // namespace
}  // namespace simurgh::testing
