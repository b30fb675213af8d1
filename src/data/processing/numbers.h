#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "config/data_config.h"

namespace simurgh {

// Returns the whole text as a finite number, or nothing. Numbers may have a sign and, at one end, a
// currency or percent sign, which is left out: `12.5%` is 12.5. Numbers in parentheses are
// negative.
std::optional<double> ParseWrittenNumber(std::string_view text, const NumberFormat& format);

// Parses a number in the default format. Plain numbers are fast.
inline std::optional<double> ParseNumberCell(std::string_view text) {
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) [[unlikely]]
    return ParseWrittenNumber(text, {});
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

// Parses a number in the format of a column.
inline std::optional<double> ParseNumberCell(std::string_view text, const NumberFormat& format) {
  return format == NumberFormat() ? ParseNumberCell(text) : ParseWrittenNumber(text, format);
}

// Returns whether a cell is one of the texts, or one of their numbers: 4 is 4.0. format: that of
// cells that are numbers.
bool IsAmong(std::string_view cell, const std::vector<std::string>& texts,
             const NumberFormat& format);

// Returns the text of an id of a column of integers. Leaves out decimals that are zeros, because
// programs that keep columns with missing values as floating point numbers write 3 as `3.0`.
// Returns nothing for a number in scientific notation, which has lost digits.
inline std::optional<std::string_view> IntegerText(std::string_view text) {
  const auto is_digit = [](char c) { return '0' <= c && c <= '9'; };
  size_t end = text.starts_with('-') ? 1 : 0;
  const size_t first = end;
  while (end < text.size() && is_digit(text[end])) ++end;
  if (end == text.size() || end == first) return text;  // A plain integer, or a text.
  size_t rest = end;
  if (text[rest] == '.') ++rest;
  const size_t decimals = rest;
  while (rest < text.size() && is_digit(text[rest])) ++rest;
  if (rest == text.size()) {
    const bool is_integer = text.find_first_not_of('0', decimals) == text.npos;
    return is_integer ? text.substr(0, end) : text;
  }
  const bool is_scientific = (text[rest] == 'e' || text[rest] == 'E') && ParseNumberCell(text);
  return is_scientific ? std::nullopt : std::optional(text);
}

// Returns the whole text as an integer from -2^63 to 2^64 - 1, in two's complement, or nothing.
inline std::optional<uint64_t> ParseIntegerCell(std::string_view text) {
  const char* end = text.data() + text.size();
  const auto whole = [&](auto value) -> std::optional<uint64_t> {
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end) return std::nullopt;
    return static_cast<uint64_t>(value);
  };
  return text.starts_with('-') ? whole(int64_t{0}) : whole(uint64_t{0});
}

// Returns the number of ParseNumberCell() rounded to a finite float, or nothing.
inline std::optional<float> ParseFloatCell(std::string_view text) {
  const std::optional<double> value = ParseNumberCell(text);
  if (!value || !std::isfinite(static_cast<float>(*value))) return std::nullopt;
  return static_cast<float>(*value);
}

// Returns the number of boundaries <= value. Requires ascending boundaries.
uint64_t BucketOf(std::span<const double> boundaries, double value);

// Returns up to buckets - 1 distinct ascending values that split `values` into buckets of equal
// size, as far as ties allow. Requires buckets > 0 and no NaN. Cost: sorts.
std::vector<double> QuantileBoundaries(std::vector<double> values, uint32_t buckets);

double Transformed(ColumnConfig::Transform transform, double value);

// Returns (Transformed(value) - mean) / stddev, which may be infinite.
float Scaled(const ColumnConfig& column, double value);

// Mean and deviation of a sequence of numbers.
// Source: Welford, "Note on a method for calculating corrected sums of squares and products", 1962.
class Moments {
 public:
  void Add(double value);

  double count() const { return count_; }
  double mean() const { return mean_; }
  double stddev() const;  // Returns the population deviation; 0 for fewer than two numbers.

 private:
  double count_ = 0.0;
  double mean_ = 0.0;
  double squares_ = 0.0;  // Sum of the squared distances from the mean.
};

// Returns whether a binary label's cell is in `positive`; nothing: in neither list. The text
// decides before the number, since codes such as 01 and 1 can be two values.
std::optional<bool> IsPositive(std::string_view cell, const ColumnConfig& label);

}  // namespace simurgh
