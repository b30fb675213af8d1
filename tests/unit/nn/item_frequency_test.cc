// The streaming estimate of how often items are in a batch.

#include "nn/item_frequency.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "base/random.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace simurgh::testing {
namespace {

constexpr size_t kBatch = 64;

// Draws items with the probability of rank r proportional to 1 / r.
class Zipf {
 public:
  explicit Zipf(size_t items) {
    double sum = 0;
    for (size_t i = 1; i <= items; ++i) sums_.push_back(sum += 1.0 / static_cast<double>(i));
  }
  uint64_t Draw(Random& random) const {
    const auto at = std::ranges::upper_bound(sums_, random.Uniform() * sums_.back());
    return std::min<size_t>(at - sums_.begin(), sums_.size() - 1);
  }
  double PerBatch(size_t item) const {
    return double{kBatch} / (static_cast<double>(item + 1) * sums_.back());
  }

 private:
  std::vector<double> sums_;
};

// The estimator with its state.
struct Estimator {
  void Add(uint64_t step, std::span<const uint64_t> items) {
    frequency.Observe(step, items, state);
    frequency.Commit(state);
  }
  double Of(uint64_t item) const { return frequency.Of(item, state); }

  ItemFrequency frequency;
  std::vector<float> state = std::vector<float>(ItemFrequency::kStateSize, 0.0F);
};

TEST_CASE("Estimates of a Zipf stream are those of numpy in f64, and near the truth") {
  const std::string python = Python("numpy");
  constexpr size_t kItems = 500;
  constexpr size_t kSteps = 2'000;
  const Zipf zipf(kItems);
  Random random(51);
  std::vector<uint64_t> stream;
  for (size_t i = 0; i < kSteps * kBatch; ++i) stream.push_back(zipf.Draw(random));
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/stream", std::ios::binary)
      .write(reinterpret_cast<const char*>(stream.data()),
             static_cast<std::streamsize>(stream.size() * sizeof(uint64_t)));
  REQUIRE(std::system(absl::StrCat(python, " tests/unit/nn/item_frequency_reference.py ",
                                   folder.path(), " ", kItems, " ", kBatch)
                          .c_str()) == 0);
  std::ifstream file(folder.path() + "/found", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<double> wanted(kItems);
  REQUIRE(bytes.size() == kItems * sizeof(double));
  std::memcpy(wanted.data(), bytes.data(), bytes.size());

  Estimator found;
  for (size_t step = 0; step < kSteps; ++step) {
    found.Add(step, std::span(stream).subspan(step * kBatch, kBatch));
  }
  double error = 0;
  for (size_t item = 0; item < kItems; ++item) {
    CAPTURE(item);
    CHECK(found.Of(item) == Approx(wanted[item]).epsilon(1e-4));
    error += std::abs(std::log(found.Of(item) / zipf.PerBatch(item)));
  }
  // Means over 100 gaps have an error of a tenth.
  CHECK(error / kItems < 0.15);
}

TEST_CASE("Estimates do not depend on the order of a batch, and go on from a copied state") {
  const Zipf zipf(100'000);
  Random random(52);
  Estimator one;
  Estimator other;
  for (uint64_t step = 0; step < 200; ++step) {
    std::vector<uint64_t> items(kBatch);
    for (uint64_t& item : items) item = zipf.Draw(random);
    one.Add(step, items);
    std::ranges::reverse(items);
    if (step == 100) {
      Estimator resumed;
      resumed.state = other.state;
      other = std::move(resumed);
    }
    other.Add(step, items);
  }
  CHECK(one.state == other.state);
}

TEST_CASE("A step that is not committed leaves no trace") {
  Estimator found;
  found.Add(0, std::vector<uint64_t>{1, 2});
  const std::vector<float> before = found.state;
  found.frequency.Observe(1, std::vector<uint64_t>{1, 3}, found.state);
  CHECK(found.Of(3) > 0);
  CHECK(found.state == before);
  found.frequency.Drop();
  CHECK(found.Of(3) == 0);
  CHECK(found.Of(1) == 1.0);
}

TEST_CASE("Items that share a slot have the larger of their gaps") {
  // Many rare items fill slots; a frequent item that shares one of its slots keeps its estimate.
  Estimator found;
  Random random(53);
  for (uint64_t step = 0; step < 400; ++step) {
    std::vector<uint64_t> items = {7};  // In each batch.
    if (step % 20 == 0) items.push_back(8);
    while (items.size() < 200) items.push_back(1'000 + random.Below(1'000'000));
    found.Add(step, items);
  }
  CHECK(found.Of(7) == Approx(1.0).epsilon(0.05));
  CHECK(found.Of(8) == Approx(0.05).epsilon(0.3));
}

TEST_CASE("Steps beyond the exact range have right gaps") {
  Estimator found;
  const uint64_t first = ItemFrequency::kSteps - 10;
  for (uint64_t step = first; step < first + 40; step += 4) {
    found.Add(step, std::vector<uint64_t>{5});
    if (step > first) continue;
    // Without the start's gap.
    for (size_t i = 0; i < ItemFrequency::kHashes * ItemFrequency::kSlots; ++i) {
      if (found.state[i] > 0) found.state[i] = 4.0F;
    }
  }
  CHECK(found.Of(5) == Approx(0.25));
}

}  // namespace
}  // namespace simurgh::testing
