#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "simurgh/config/data_config.h"

namespace simurgh {

// The whole text as a finite number, or nothing.
inline std::optional<double> ParseNumberCell(std::string_view text) {
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

// The whole text as an integer from -2^63 to 2^64 - 1, in two's complement, or nothing.
inline std::optional<uint64_t> ParseIntegerCell(std::string_view text) {
  const char* end = text.data() + text.size();
  const auto whole = [&](auto value) -> std::optional<uint64_t> {
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end) return std::nullopt;
    return static_cast<uint64_t>(value);
  };
  return text.starts_with('-') ? whole(int64_t{0}) : whole(uint64_t{0});
}

// As ParseNumberCell, rounded to a finite float, or nothing.
inline std::optional<float> ParseFloatCell(std::string_view text) {
  const std::optional<double> value = ParseNumberCell(text);
  if (!value || !std::isfinite(static_cast<float>(*value))) return std::nullopt;
  return static_cast<float>(*value);
}

// The number of boundaries <= value.
// Requires ascending boundaries.
uint64_t BucketOf(std::span<const double> boundaries, double value);

// Up to buckets - 1 distinct ascending values that split `values` into buckets of equal size, as
// far as ties allow. Requires buckets > 0 and no NaN. Cost: sorts.
std::vector<double> QuantileBoundaries(std::vector<double> values, uint32_t buckets);

double Transformed(ColumnConfig::Transform transform, double value);

// (Transformed(value) - mean) / stddev; may be infinite.
float Scaled(const ColumnConfig& column, double value);

// Mean and deviation of a sequence of numbers.
// Source: Welford, "Note on a method for calculating corrected sums of squares and products", 1962.
class Moments {
 public:
  void Add(double value);

  double count() const { return count_; }
  double mean() const { return mean_; }
  double stddev() const;  // Population deviation; 0 for fewer than two numbers.

 private:
  double count_ = 0.0;
  double mean_ = 0.0;
  double squares_ = 0.0;  // Sum of the squared distances from the mean.
};

}  // namespace simurgh
