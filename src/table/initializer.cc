#include "table/initializer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "simurgh/base/hash.h"
#include "simurgh/base/random.h"

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
