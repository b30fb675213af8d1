#include "config/scalar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace simurgh {

bool IsDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

NumberFault ParseUnsigned(const std::string& text, uint64_t* value) {
  const bool negative = text.starts_with('-');
  const std::string_view digits = std::string_view(text).substr(negative ? 1 : 0);
  if (!IsDigits(digits)) return NumberFault::kNotANumber;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *value);
  return negative || error != std::errc() ? NumberFault::kOutOfRange : NumberFault::kNone;
}

template <std::floating_point T>
NumberFault ParseNumber(const std::string& text, T* value) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *value);
  if (error == std::errc::invalid_argument || rest != end) return NumberFault::kNotANumber;
  if (error != std::errc()) return NumberFault::kOutOfRange;
  return std::isfinite(*value) ? NumberFault::kNone : NumberFault::kNotANumber;
}

template NumberFault ParseNumber(const std::string& text, float* value);
template NumberFault ParseNumber(const std::string& text, double* value);

template <std::floating_point T>
std::string FormatNumber(T value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

template std::string FormatNumber(float value);
template std::string FormatNumber(double value);

std::optional<std::chrono::microseconds> ParseDuration(const std::string& text) {
  constexpr uint64_t kMaxCount = 10'000'000'000;  // Far beyond any range, far from overflow.
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  uint64_t count = 0;
  if (ParseUnsigned(text.substr(0, digits), &count) != NumberFault::kNone || count > kMaxCount) {
    return std::nullopt;
  }
  const std::string unit = text.substr(digits);
  if (unit == "us") return std::chrono::microseconds(count);
  if (unit == "ms") return std::chrono::milliseconds(count);
  if (unit == "s") return std::chrono::seconds(count);
  if (unit == "m") return std::chrono::minutes(count);
  return std::nullopt;
}

std::string FormatDuration(std::chrono::microseconds value) {
  const int64_t us = value.count();
  if (us == 0) return "0s";
  if (us % 60'000'000 == 0) return absl::StrCat(us / 60'000'000, "m");
  if (us % 1'000'000 == 0) return absl::StrCat(us / 1'000'000, "s");
  if (us % 1'000 == 0) return absl::StrCat(us / 1'000, "ms");
  return absl::StrCat(us, "us");
}

bool IsName(const std::string& text) {
  constexpr size_t kMaxLength = 63;
  return !text.empty() && text.size() <= kMaxLength &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '-';
         });
}

}  // namespace simurgh
