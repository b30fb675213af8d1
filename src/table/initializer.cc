#include "table/initializer.h"

#include <algorithm>
#include <cmath>

#include "simurgh/base/hash.h"
#include "simurgh/base/random.h"

namespace simurgh {

Initializer::Initializer(const InitializerConfig& config, std::string_view table, uint32_t dim,
                         uint64_t seed)
    : config_(config), table_seed_(HashBytes(table, seed)) {
  const bool by_dim = config.kind == InitializerConfig::Kind::kInverseSqrtDim;
  const float bound = 1.0F / std::sqrt(static_cast<float>(dim));
  low_ = by_dim ? -bound : config.low;
  const float high = by_dim ? bound : config.high;
  width_ = high - low_;
  highest_ = std::max(low_, std::nextafter(high, low_));
}

void Initializer::Fill(uint64_t id, std::span<float> weights) const {
  const uint64_t row_seed = Mix64(table_seed_ ^ Mix64(id));
  switch (config_.kind) {
    case InitializerConfig::Kind::kUniform:
    case InitializerConfig::Kind::kInverseSqrtDim:
      FillUniform(row_seed, weights);
      return;
    case InitializerConfig::Kind::kNormal: {
      Random random(row_seed);
      for (float& weight : weights) {
        weight = static_cast<float>(config_.mean + config_.stddev * random.Normal());
      }
      return;
    }
    case InitializerConfig::Kind::kConstant:
      std::fill(weights.begin(), weights.end(), config_.value);
      return;
  }
}

void Initializer::FillUniform(uint64_t row_seed, std::span<float> weights) const {
  // 24 bits are what a float in [0, 1) holds; rounding in the sum could still reach the upper end.
  const auto scaled = [this](uint64_t bits) {
    const float unit = static_cast<float>(static_cast<int32_t>(bits & 0xffffff)) * 0x1.0p-24F;
    return std::min(low_ + unit * width_, highest_);
  };
  Random random(row_seed);
  size_t i = 0;
  for (; i + 2 <= weights.size(); i += 2) {
    const uint64_t bits = random();
    weights[i] = scaled(bits >> 40);
    weights[i + 1] = scaled(bits >> 16);
  }
  if (i < weights.size()) weights[i] = scaled(random() >> 40);
}

}  // namespace simurgh
