#include "data/processing/numbers.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/charconv.h"

#include "base/check.h"

namespace simurgh {
namespace {

// UTF-8 signs for a minus, for blanks between groups of digits, and for an apostrophe there.
constexpr std::string_view kMinus = "\u2212";
constexpr std::array<std::string_view, 4> kBlanks = {" ", "\u00a0", "\u202f", "\u2009"};
constexpr std::array<std::string_view, 2> kApostrophes = {"'", "\u2019"};

constexpr std::array<std::string_view, 12> kCurrencies = {
    "$", "\u00a3", "\u00a5", "USD", "EUR", "GBP", "JPY", "CNY", "INR", "CHF", "CAD", "AUD"};

bool Take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool TakeBack(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

void RemoveBlanks(std::string_view& text) {
  const auto is_removed = [&](std::string_view blank) {
    return Take(text, blank) || TakeBack(text, blank);
  };
  while (std::ranges::any_of(kBlanks, is_removed)) {
  }
}

// Returns whether the bytes are a sign of the Unicode block of currencies, which has the euro.
bool IsCurrency(std::string_view three) {
  return three.size() == 3 && three[0] == '\xe2' && three[1] == '\x82' &&
         static_cast<unsigned char>(three[2]) >= 0xa0;
}

// Removes one currency or percent sign at an end, and the blanks next to it.
bool TakeUnit(std::string_view& text) {
  const auto is_taken = [&](std::string_view unit) {
    return Take(text, unit) || TakeBack(text, unit);
  };
  bool found = std::ranges::any_of(kCurrencies, is_taken) || TakeBack(text, "%");
  if (!found && IsCurrency(text.substr(0, 3))) {
    found = Take(text, text.substr(0, 3));
  } else if (!found && text.size() > 3 && IsCurrency(text.substr(text.size() - 3))) {
    found = TakeBack(text, text.substr(text.size() - 3));
  }
  if (found) RemoveBlanks(text);
  return found;
}

// Removes a sign. Returns 1 or -1, or 0 if there is none.
int TakeSign(std::string_view& text) {
  if (Take(text, "+")) return 1;
  return Take(text, "-") || Take(text, kMinus) ? -1 : 0;
}

// Removes a separator of groups of digits.
bool TakeThousands(std::string_view& text, char thousands) {
  const auto take = [&](std::string_view sign) { return Take(text, sign); };
  if (thousands == ' ') return std::ranges::any_of(kBlanks, take);
  if (thousands == '\'') return std::ranges::any_of(kApostrophes, take);
  return thousands != '\0' && take({&thousands, 1});
}

bool StartsWithDigit(std::string_view text) {
  return !text.empty() && '0' <= text[0] && text[0] <= '9';
}

}  // namespace

std::optional<double> ParseWrittenNumber(std::string_view text, const NumberFormat& format) {
  constexpr size_t kMaxBytes = 64;
  constexpr std::string_view kDigits = "0123456789";
  if (text.size() > kMaxBytes || text.find_first_of(kDigits) == text.npos) return std::nullopt;
  RemoveBlanks(text);
  const bool is_in_parentheses = text.size() > 2 && text.front() == '(' && text.back() == ')';
  if (is_in_parentheses) text = text.substr(1, text.size() - 2);
  int sign = TakeSign(text);
  const bool has_unit = TakeUnit(text);
  if (has_unit && sign == 0) sign = TakeSign(text);
  if (is_in_parentheses && sign != 0) return std::nullopt;
  // The number in the form for from_chars.
  std::array<char, kMaxBytes> plain;
  size_t size = 0;
  size_t groups = 0;
  const auto take_digits = [&] {
    const size_t before = size;
    for (; StartsWithDigit(text); text.remove_prefix(1)) plain[size++] = text[0];
    return size - before;
  };
  const size_t first = take_digits();
  if (0 < first && first <= 3 && plain[0] != '0') {
    while (TakeThousands(text, format.thousands)) {
      if (take_digits() != 3) return std::nullopt;
      ++groups;
    }
  }
  if (text.starts_with(format.decimal)) {
    text.remove_prefix(1);
    plain[size++] = '.';
    if (take_digits() + first == 0) return std::nullopt;
  } else if (first == 0) {
    return std::nullopt;
  }
  if (groups == 0 && !has_unit && (text.starts_with('e') || text.starts_with('E'))) {
    for (; !text.empty(); text.remove_prefix(1)) plain[size++] = text[0];
  }
  if (!text.empty()) return std::nullopt;
  double value = 0.0;
  const char* const end = plain.data() + size;
  const auto [stop, error] = absl::from_chars(plain.data(), end, value);
  const bool is_tiny = error == std::errc::result_out_of_range && std::abs(value) < 1;
  if ((error != std::errc() && !is_tiny) || stop != end || !std::isfinite(value)) {
    return std::nullopt;
  }
  return sign < 0 || is_in_parentheses ? -value : value;
}

uint64_t BucketOf(std::span<const double> boundaries, double value) {
  return std::upper_bound(boundaries.begin(), boundaries.end(), value) - boundaries.begin();
}

std::vector<double> QuantileBoundaries(std::vector<double> values, uint32_t buckets) {
  SIMURGH_CHECK_LT(0U, buckets);
  std::sort(values.begin(), values.end());
  std::vector<double> boundaries;
  for (uint64_t bucket = 1; bucket < buckets && !values.empty(); ++bucket) {
    const double boundary = values[bucket * values.size() / buckets];
    // A boundary at the smallest value would leave the first bucket empty.
    const double last = boundaries.empty() ? values.front() : boundaries.back();
    if (boundary > last) boundaries.push_back(boundary);
  }
  return boundaries;
}

double Transformed(ColumnConfig::Transform transform, double value) {
  if (transform == ColumnConfig::Transform::kNone) return value;
  return std::copysign(std::log1p(std::abs(value)), value);
}

float Scaled(const ColumnConfig& column, double value) {
  return static_cast<float>((Transformed(column.transform, value) - column.mean) / column.stddev);
}

void Moments::Add(double value) {
  count_ += 1.0;
  const double before = value - mean_;
  mean_ += before / count_;
  squares_ += before * (value - mean_);
}

double Moments::stddev() const { return count_ < 2.0 ? 0.0 : std::sqrt(squares_ / count_); }

bool IsAmong(std::string_view cell, const std::vector<std::string>& texts,
             const NumberFormat& format) {
  if (std::ranges::find(texts, cell) != texts.end()) return true;
  if (texts.empty()) return false;
  const std::optional<double> number = ParseNumberCell(cell, format);
  return number && std::ranges::any_of(texts, [&](const std::string& text) {
           return ParseNumberCell(text) == number || ParseNumberCell(text, format) == number;
         });
}

std::optional<bool> IsPositive(std::string_view cell, const ColumnConfig& label) {
  if (std::ranges::find(label.positive, cell) != label.positive.end()) return true;
  if (std::ranges::find(label.negative, cell) != label.negative.end()) return false;
  if (IsAmong(cell, label.positive, label.numbers)) return true;
  if (IsAmong(cell, label.negative, label.numbers)) return false;
  return std::nullopt;
}

}  // namespace simurgh
