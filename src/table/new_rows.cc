#include "table/new_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "base/random.h"

namespace simurgh {
namespace {

using Kind = InitializerConfig::Kind;

// Standard normal, drawn again until it is within two deviations: 1.05 times on average.
double TruncatedNormal(Random& random) {
  for (;;) {
    if (const double value = random.Normal(); std::abs(value) <= 2) return value;
  }
}

// Source: Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26(3),
// 2000; shapes below 1 by their last remark.
double Gamma(double shape, Random& random) {
  const double boost = shape < 1 ? std::pow(1 - random.Uniform(), 1 / shape) : 1;
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.Normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(1 - random.Uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return boost * d * v;
    }
  }
}

// Knuth's method: counts uniform draws until their product falls below exp(-rate).
double Poisson(double rate, Random& random) {
  const double end = std::exp(-rate);
  double arrivals = 0;
  for (double product = random.Uniform(); product > end; product *= random.Uniform()) ++arrivals;
  return arrivals;
}

}  // namespace

Admission::Admission(const AdmissionConfig& config, std::string_view table, uint64_t seed)
    : config_(config), seed_(HashBytes(table, seed ^ 0xad3155107ULL)) {
  if (config_.kind == Kind::kProbability) {
    threshold_ = config_.probability >= 1
                     ? std::numeric_limits<uint64_t>::max()
                     : static_cast<uint64_t>(std::ldexp(double{config_.probability}, 64));
  }
  if (config_.kind == Kind::kOccurrences) groups_.resize(kGroups);
}

bool Admission::Admit(uint64_t id) {
  if (always()) return true;
  const uint64_t placed = Mix64(id);
  if (config_.kind == Kind::kProbability) return Mix64(seed_ ^ placed) <= threshold_;
  Sketch& sketch = FindOrCreate(BucketOf(id));
  uint8_t least = std::numeric_limits<uint8_t>::max();
  std::array<uint8_t*, kRows> cells;
  for (uint32_t row = 0; row < kRows; ++row) {
    const uint64_t hash = Mix64(seed_ + row + (placed << 8)) >> 32;
    const uint64_t column = hash * config_.sketch_width >> 32;
    cells[row] = &sketch.counters[uint64_t{row} * config_.sketch_width + column];
    least = std::min(least, *cells[row]);
  }
  // Conservative update: only the smallest counters grow, the others are overestimates already.
  if (least < std::numeric_limits<uint8_t>::max()) {
    for (uint8_t* cell : cells) *cell = std::max<uint8_t>(*cell, static_cast<uint8_t>(least + 1));
  }
  if (++sketch.counted == kAgeAfter * config_.sketch_width) {
    sketch.counted = 0;
    for (uint64_t i = 0; i < counters(); ++i) sketch.counters[i] /= 2;
  }
  return uint32_t{least} + 1 >= config_.occurrences;
}

Admission::Sketch& Admission::FindOrCreate(uint16_t bucket) {
  std::unique_ptr<Group>& group = groups_[bucket / kBucketsPerGroup];
  if (group == nullptr) {
    group = std::make_unique<Group>();
    ++groups_in_use_;
  }
  Sketch& sketch = (*group)[bucket % kBucketsPerGroup];
  if (sketch.counters == nullptr) {
    sketch.counters = std::make_unique<uint8_t[]>(counters());
    ++sketches_in_use_;
  }
  return sketch;
}

std::vector<TensorSpec> Admission::FileTensors(const AdmissionConfig& config, uint64_t sketches) {
  if (config.kind != Kind::kOccurrences) return {};
  return {{"bucket", DType::kU16, {sketches}},
          {"counted", DType::kU32, {sketches}},
          {"counters", DType::kU8, {sketches, kRows, config.sketch_width}}};
}

void Admission::Copy(std::span<std::vector<std::byte>> parts) const {
  const auto append = [&parts](size_t part, const void* value, size_t bytes) {
    const auto* first = static_cast<const std::byte*>(value);
    parts[part].insert(parts[part].end(), first, first + bytes);
  };
  for (uint32_t bucket = 0; bucket < groups_.size() * kBucketsPerGroup; ++bucket) {
    const auto number = static_cast<uint16_t>(bucket);
    const Sketch* const sketch = Find(number);
    if (sketch == nullptr) continue;
    append(0, &number, sizeof(number));
    append(1, &sketch->counted, sizeof(sketch->counted));
    append(2, sketch->counters.get(), counters());
  }
}

Status Admission::Put(std::span<const std::span<const std::byte>> parts,
                      absl::FunctionRef<bool(uint16_t bucket)> owns) {
  for (size_t i = 0; i < parts[0].size() / sizeof(uint16_t); ++i) {
    uint16_t bucket = 0;
    uint32_t counted = 0;
    std::memcpy(&bucket, parts[0].data() + i * sizeof(bucket), sizeof(bucket));
    std::memcpy(&counted, parts[1].data() + i * sizeof(counted), sizeof(counted));
    if (!owns(bucket)) continue;
    if (counted >= kAgeAfter * config_.sketch_width) {
      return absl::DataLossError(
          absl::StrCat("the admission sketch of bucket ", bucket, " has counted ", counted,
                       "; at most ", kAgeAfter * config_.sketch_width - 1, " is possible"));
    }
    Sketch& sketch = FindOrCreate(bucket);
    sketch.counted = counted;
    std::memcpy(sketch.counters.get(), parts[2].data() + i * counters(), counters());
  }
  return absl::OkStatus();
}

uint64_t Admission::BytesFor(const AdmissionConfig& config, uint64_t groups, uint64_t sketches) {
  if (config.kind != Kind::kOccurrences) return 0;
  return kGroups * sizeof(std::unique_ptr<Group>) + groups * sizeof(Group) +
         sketches * kRows * config.sketch_width;
}

Initializer::Initializer(const InitializerConfig& config, std::string_view table, uint32_t dim,
                         uint64_t seed)
    : config_(config), dim_(dim), table_seed_(HashBytes(table, seed)) {
  if (config.kind == Kind::kZero) config_.value = 0;
  const bool by_dim = config.kind == Kind::kInverseSqrtDim;
  const float bound = 1.0F / std::sqrt(static_cast<float>(dim));
  const float low = by_dim ? -bound : config.low;
  const float high = by_dim ? bound : config.high;
  range_ = {low, high - low, std::max(low, std::nextafter(high, low))};
}

void Initializer::Fill(std::span<const NewWeights> rows) const {
  const auto seed_of = [this](uint64_t id) { return Mix64(table_seed_ ^ Mix64(id)); };
  if (config_.kind == Kind::kUniform || config_.kind == Kind::kInverseSqrtDim) {
    std::array<UniformRow, 16> batch;
    for (size_t begin = 0; begin < rows.size(); begin += batch.size()) {
      const auto block = rows.subspan(begin, std::min(batch.size(), rows.size() - begin));
      for (size_t i = 0; i < block.size(); ++i) batch[i] = {seed_of(block[i].id), block[i].weights};
      FillUniform(range_, dim_, {batch.data(), block.size()});
    }
    return;
  }
  for (const NewWeights& row : rows) {
    if (config_.kind == Kind::kZero || config_.kind == Kind::kConstant) {
      std::fill_n(row.weights, dim_, config_.value);
      continue;
    }
    Random random(seed_of(row.id));
    for (uint32_t i = 0; i < dim_; ++i) row.weights[i] = static_cast<float>(Draw(random));
  }
}

double Initializer::Draw(Random& random) const {
  switch (config_.kind) {
    case Kind::kTruncatedNormal:
      return config_.mean + config_.stddev * TruncatedNormal(random);
    case Kind::kGamma:
      return config_.scale * Gamma(config_.shape, random);
    case Kind::kPoisson:
      return Poisson(config_.rate, random);
    default:
      return config_.mean + config_.stddev * random.Normal();
  }
}

}  // namespace simurgh
