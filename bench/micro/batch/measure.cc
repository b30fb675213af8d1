#include "bench/micro/batch/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "base/check.h"
#include "bench/micro/batch/samples.h"
#include "data/batch/batch_builder.h"
#include "data/batch/encoded_batch.h"

namespace simurgh::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kOccurrencesOfTurn = 2'000'000;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::shared_ptr<const CompactBatch> Build(std::span<const uint64_t> ids, BatchBuilder& builder) {
  for (size_t first = 0; first < ids.size(); first += kBenchFeatures) {
    for (size_t f = 0; f < kBenchFeatures; ++f) {
      if (ids[first + f] != kNoId) builder.AddId(f, ids[first + f]);
    }
    builder.EndSample();
  }
  return builder.Build()->sparse;
}

double EntropyBytes(const CompactBatch& batch) {
  double bits = 0.0;
  for (size_t f = 0; f < batch.feature_count(); ++f) {
    const FeatureView feature = batch.feature(f);
    std::vector<double> counts(feature.ids.size());
    for (const uint32_t occurrence : feature.occurrences) ++counts[occurrence];
    const auto unique = static_cast<double>(counts.size());
    bits += 64.0 * unique - std::lgamma(unique + 1.0) / std::log(2.0);
    const auto total = static_cast<double>(feature.occurrences.size());
    for (const double count : counts) bits += count * std::log2(total / count);
  }
  return bits / 8.0;
}

struct Turn {
  double build_s = 0.0;
  double encode_s = 0.0;
  double decode_s = 0.0;
};

// One batch through all stages; the builder is warm.
Turn RunOnce(std::span<const uint64_t> ids, BatchBuilder& builder) {
  Turn turn;
  auto begin = Clock::now();
  const auto batch = Build(ids, builder);
  turn.build_s = SecondsSince(begin);
  begin = Clock::now();
  auto encoded = EncodeBatch(*batch);
  turn.encode_s = SecondsSince(begin);
  SIMURGH_CHECK(encoded.ok());
  begin = Clock::now();
  const auto decoded = DecodeBatch(*std::move(encoded));
  turn.decode_s = SecondsSince(begin);
  SIMURGH_CHECK(decoded.ok() && decoded->occurrences == batch->occurrences);
  return turn;
}

}  // namespace

double BatchMeasurement::of_bare() const {
  return static_cast<double>(bytes) / (8.0 * static_cast<double>(occurrences));
}
double BatchMeasurement::of_plain() const {
  return static_cast<double>(bytes) / static_cast<double>(8 * occurrences + 4 * cells);
}
double BatchMeasurement::of_persia() const {
  return static_cast<double>(bytes) / static_cast<double>(8 * occurrences + 28 * unique_ids);
}
double BatchMeasurement::entropy() const {
  return entropy_bytes / (8.0 * static_cast<double>(occurrences));
}

BatchMeasurement Measure(std::span<const uint64_t> ids, size_t turns) {
  BatchBuilder builder(kBenchFeatures, 0);
  const auto batch = Build(ids, builder);
  const auto encoded = EncodeBatch(*batch);
  SIMURGH_CHECK(encoded.ok());
  BatchMeasurement result;
  result.occurrences = batch->occurrences.size();
  result.unique_ids = batch->ids.size();
  result.cells = ids.size();
  result.bytes = encoded->byte_size();
  result.entropy_bytes = EntropyBytes(*batch);

  const size_t repeats = 1 + kOccurrencesOfTurn / std::max<size_t>(ids.size(), 1);
  const double occurrences = static_cast<double>(result.occurrences * repeats);
  std::vector<double> build;
  std::vector<double> encode;
  std::vector<double> make;
  std::vector<double> decode;
  for (size_t t = 0; t < turns; ++t) {
    Turn sum;
    for (size_t r = 0; r < repeats; ++r) {
      const Turn turn = RunOnce(ids, builder);
      sum.build_s += turn.build_s;
      sum.encode_s += turn.encode_s;
      sum.decode_s += turn.decode_s;
    }
    build.push_back(occurrences / sum.build_s);
    encode.push_back(occurrences / sum.encode_s);
    make.push_back(occurrences / (sum.build_s + sum.encode_s));
    decode.push_back(occurrences / sum.decode_s);
  }
  result.build_per_s = Median(std::move(build));
  result.encode_per_s = Median(std::move(encode));
  result.make_per_s = Median(std::move(make));
  result.decode_per_s = Median(std::move(decode));
  return result;
}

}  // namespace simurgh::bench
