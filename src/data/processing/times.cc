#include "data/processing/times.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace simurgh {
namespace {

// Reads a text from its start.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool is_at_end() const { return text_.empty(); }
  // Takes one of `any`. Returns 0 if none is next.
  char Take(std::string_view any) {
    if (text_.empty() || any.find(text_[0]) == any.npos) return '\0';
    const char taken = text_[0];
    text_.remove_prefix(1);
    return taken;
  }
  // Takes a number of exactly `digits` digits.
  std::optional<int> TakeDigits(size_t digits) {
    if (text_.size() < digits) return std::nullopt;
    int value = 0;
    for (const char c : text_.substr(0, digits)) {
      if (c < '0' || c > '9') return std::nullopt;
      value = value * 10 + (c - '0');
    }
    text_.remove_prefix(digits);
    return value;
  }
  // Takes a number of one or two digits.
  std::optional<int> TakeNumber() {
    const auto two = TakeDigits(2);
    return two ? two : TakeDigits(1);
  }
  // Takes the digits after a decimal point.
  double TakeFraction() {
    double value = 0;
    for (double place = 0.1; const auto digit = TakeDigits(1); place /= 10) value += *digit * place;
    return value;
  }

 private:
  std::string_view text_;
};

// Takes "PM" or "AM". Returns the hours that it adds; 0 without one of them.
std::optional<int> HalfOfDay(Scanner& text, int hour) {
  Scanner rest = text;
  rest.Take(" ");
  const char half = rest.Take("aApP");
  if (half == '\0') return 0;
  if (rest.Take("mM") == '\0' || hour < 1 || hour > 12) return std::nullopt;
  text = rest;
  const int of_noon = hour == 12 ? -12 : 0;
  return half == 'p' || half == 'P' ? of_noon + 12 : of_noon;
}

// Takes "23:59", "9:05", "23:59:59", "23:59:59.5" or "11:59 PM". Returns seconds.
std::optional<double> TimeOfDay(Scanner& text) {
  const auto hour = text.TakeNumber();
  if (!hour || *hour > 24 || text.Take(":") == '\0') return std::nullopt;
  const auto minute = text.TakeDigits(2);
  if (!minute || *minute > 59) return std::nullopt;
  double seconds = *hour * 3600 + *minute * 60;
  if (text.Take(":") != '\0') {
    const auto second = text.TakeDigits(2);
    if (!second || *second > 60) return std::nullopt;
    seconds += *second;
    if (text.Take(".,") != '\0') seconds += text.TakeFraction();
  }
  const auto half = HalfOfDay(text, *hour);
  return half ? std::optional(seconds + *half * 3600) : std::nullopt;
}

// Takes "Z", "+01:00", "+0100" or "+01". Returns seconds; 0 without an offset.
std::optional<double> Offset(Scanner& text) {
  if (text.Take("Zz") != '\0') return 0;
  const char sign = text.Take("+-");
  if (sign == '\0') return 0;
  const auto hours = text.TakeDigits(2);
  if (!hours) return std::nullopt;
  const bool has_colon = text.Take(":") != '\0';
  const auto minutes = text.is_at_end() && !has_colon ? std::optional(0) : text.TakeDigits(2);
  if (!minutes) return std::nullopt;
  return (sign == '-' ? -1 : 1) * (*hours * 3600 + *minutes * 60);
}

// Returns the seconds of a date and of the rest of a text, which is empty or has the time of day.
std::optional<double> WithTime(const std::chrono::year_month_day& date, Scanner text) {
  if (!date.ok()) return std::nullopt;
  const double days = std::chrono::sys_days(date).time_since_epoch().count();
  const double seconds = days * 86'400;
  if (text.is_at_end()) return seconds;
  if (text.Take("T _") == '\0') return std::nullopt;
  const auto time = TimeOfDay(text);
  if (!time) return std::nullopt;
  text.Take(" ");
  const auto offset = Offset(text);
  if (!offset || !text.is_at_end()) return std::nullopt;
  return seconds + *time - *offset;
}

std::optional<double> ParseDate(Scanner text) {
  const auto year = text.TakeDigits(4);
  const char between = text.Take("-/.");
  if (!year || between == '\0') return std::nullopt;
  const auto month = text.TakeDigits(2);
  if (!month || text.Take({&between, 1}) == '\0') return std::nullopt;
  const auto day = text.TakeDigits(2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  return WithTime(date, text);
}

// Parses `29.02.2024` or `2/29/2024 9:05 PM`. Returns seconds since 1970.
std::optional<double> ParseOrdered(Scanner text, DateOrder order) {
  const auto first = text.TakeNumber();
  const char between = text.Take("-/.");
  if (!first || between == '\0') return std::nullopt;
  const auto second = text.TakeNumber();
  if (!second || text.Take({&between, 1}) == '\0') return std::nullopt;
  const auto year = text.TakeDigits(4);
  if (!year) return std::nullopt;
  const bool is_day_first = order == DateOrder::kDayFirst;
  return WithTime({std::chrono::year(*year),
                   std::chrono::month(static_cast<unsigned>(is_day_first ? *second : *first)),
                   std::chrono::day(static_cast<unsigned>(is_day_first ? *first : *second))},
                  text);
}

std::optional<double> ParseDate(std::string_view text, DateOrder order) {
  const auto seconds = ParseDate(Scanner(text));
  if (seconds || order == DateOrder::kYearFirst) return seconds;
  return ParseOrdered(Scanner(text), order);
}

constexpr double kSecondsOfDay = 86'400;

// Parses `20240131`, in this or the last century. Returns days since 1970.
std::optional<double> CompactDays(std::string_view text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.size() != 8 || error != std::errc() || stop != end) return std::nullopt;
  if (number < 19'000'000 || number > 21'000'000) return std::nullopt;
  const std::chrono::year_month_day date{
      std::chrono::year(number / 10'000),
      std::chrono::month(static_cast<unsigned>(number / 100 % 100)),
      std::chrono::day(static_cast<unsigned>(number % 100))};
  if (!date.ok()) return std::nullopt;
  return static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count());
}

// Returns the last whole second. Days are exact to less than a microsecond.
int64_t SecondsOf(double days) {
  return static_cast<int64_t>(std::floor(days * kSecondsOfDay + 1e-4));
}

int64_t FloorOf(int64_t number, int64_t divisor) {
  const int64_t quotient = number / divisor;
  return number % divisor < 0 ? quotient - 1 : quotient;
}

}  // namespace

double EpochDays(double number) {
  double seconds = number;
  for (double size = 1e11; std::abs(number) >= size && size < 1e20; size *= 1e3) seconds /= 1e3;
  return seconds / kSecondsOfDay;
}

std::optional<double> ParseDateCell(std::string_view text, DateOrder order) {
  if (const auto days = CompactDays(text)) return days;
  if (const auto number = ParseNumberCell(text)) return EpochDays(*number);
  const auto seconds = ParseDate(text, order);
  return seconds ? std::optional(*seconds / kSecondsOfDay) : std::nullopt;
}

int HourOf(double days) {
  const int64_t hours = FloorOf(SecondsOf(days), 3'600);
  return static_cast<int>(hours - FloorOf(hours, 24) * 24);
}

int WeekdayOf(double days) {
  // The first day of 1970 was a Thursday.
  const int64_t day = FloorOf(SecondsOf(days), 86'400) + 3;
  return static_cast<int>(day - FloorOf(day, 7) * 7);
}

std::optional<double> ParseTimeCell(std::string_view text, DateOrder order) {
  if (const auto number = ParseNumberCell(text)) return number;
  return ParseDate(text, order);
}

}  // namespace simurgh
