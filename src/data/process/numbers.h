#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

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

}  // namespace simurgh
