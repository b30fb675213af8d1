#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace simurgh {

// Conversion of values from and to text. A value is always the whole text.

enum class NumberFault { kNone, kNotANumber, kOutOfRange };

// One digit or more.
bool IsDigits(std::string_view text);

// Decimal digits. A negative number is out of range.
NumberFault ParseUnsigned(const std::string& text, uint64_t* value);

// Decimal or scientific notation. Numbers that T cannot represent are out of range.
template <std::floating_point T>
NumberFault ParseNumber(const std::string& text, T* value);
// The shortest text that parses to the same value.
template <std::floating_point T>
std::string FormatNumber(T value);

// A whole number and a unit: 50us, 500ms, 10s, 2m.
std::optional<std::chrono::microseconds> ParseDuration(const std::string& text);
std::string FormatDuration(std::chrono::microseconds value);

// 1 to 63 letters, digits, '_' or '-'.
bool IsName(const std::string& text);

}  // namespace simurgh
