#pragma once

#include <charconv>
#include <cmath>
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

// The same, where a float can hold it.
inline std::optional<float> ParseFloatCell(std::string_view text) {
  const std::optional<double> value = ParseNumberCell(text);
  if (!value || !std::isfinite(static_cast<float>(*value))) return std::nullopt;
  return static_cast<float>(*value);
}

}  // namespace simurgh
