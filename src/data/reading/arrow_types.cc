#include "data/reading/arrow_types.h"

#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "base/invalid.h"

namespace simurgh::arrow {
namespace {

std::optional<Type> TypeOf(std::string_view format) {
  static const std::map<std::string_view, Type> types{
      {"n", Type::kNull},
      {"b", Type::kBool},
      {"c", Type::kInt8},
      {"C", Type::kUInt8},
      {"s", Type::kInt16},
      {"S", Type::kUInt16},
      {"i", Type::kInt32},
      {"I", Type::kUInt32},
      {"l", Type::kInt64},
      {"L", Type::kUInt64},
      {"e", Type::kHalf},
      {"f", Type::kFloat},
      {"g", Type::kDouble},
      {"u", Type::kText},
      {"z", Type::kText},
      {"U", Type::kLargeText},
      {"Z", Type::kLargeText},
      {"vu", Type::kTextView},
      {"vz", Type::kTextView},
      // Dates in days and milliseconds; times of day in seconds and smaller units.
      {"tdD", Type::kInt32},
      {"tdm", Type::kInt64},
      {"tts", Type::kInt32},
      {"ttm", Type::kInt32},
      {"ttu", Type::kInt64},
      {"ttn", Type::kInt64}};
  if (format.starts_with("w:")) return Type::kFixedText;
  if (format.starts_with("d:")) return Type::kDecimal;
  // Points in time, with a time zone, and durations.
  if (format.starts_with("ts") || format.starts_with("tD")) return Type::kInt64;
  const auto found = types.find(format);
  if (found == types.end()) return std::nullopt;
  return found->second;
}

// Returns the name of a type that is not read.
std::string_view NameOfType(std::string_view format) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"d:", "decimal of more than 128 bits"},
      {"+l", "list"},
      {"+L", "large list"},
      {"+w", "list of a fixed size"},
      {"+vl", "list view"},
      {"+vL", "large list view"},
      {"+s", "struct"},
      {"+m", "map"},
      {"+r", "run-end encoded"},
      {"+u", "union"},
      {"ti", "interval"}};
  for (const auto& [prefix, name] : kNames) {
    if (format.starts_with(prefix)) return name;
  }
  return "unknown";
}

// Sets the parts of `d:PRECISION,SCALE` or `d:PRECISION,SCALE,BITS`.
bool ReadDecimal(std::string_view format, Values& values) {
  int32_t precision = 0;
  int32_t bits = 128;
  if (format.find(',') == format.npos) return false;
  const char* next = format.data() + 2;
  const char* const end = format.data() + format.size();
  for (int32_t* part : {&precision, &values.scale, &bits}) {
    const auto [stop, error] = std::from_chars(next, end, *part);
    if (error != std::errc()) return false;
    next = stop;
    if (next == end) break;
    if (*next++ != ',') return false;
  }
  values.width = bits / 8;
  constexpr int32_t kMaxDigits = 38;
  return (bits == 32 || bits == 64 || bits == 128) && std::abs(values.scale) <= kMaxDigits;
}

// Returns the seconds of a unit of times and dates; 0: the format is neither.
double SecondsOf(std::string_view format) {
  if (format == "tdD") return 86'400;
  if (format == "tdm") return 1e-3;
  if (!format.starts_with("ts") || format.size() < 3) return 0;
  return format[2] == 's' ? 1 : format[2] == 'm' ? 1e-3 : format[2] == 'u' ? 1e-6 : 1e-9;
}

}  // namespace

Status NotRead(std::string_view format) {
  return Invalid(
      "has the Arrow type %s ('%s'), which is not read; cast it to integers, floats, strings or "
      "lists",
      NameOfType(format), format);
}

bool ReadWidth(std::string_view format, std::string_view prefix, int32_t* width) {
  const char* const end = format.data() + format.size();
  const auto [stop, error] = std::from_chars(format.data() + prefix.size(), end, *width);
  return error == std::errc() && stop == end && *width >= 0;
}

StatusOr<Values> ValuesOf(const ArrowSchema& schema) {
  const std::optional<Type> type = TypeOf(schema.format);
  if (!type) return NotRead(schema.format);
  Values values{.type = *type, .seconds = SecondsOf(schema.format)};
  if (*type == Type::kDecimal && !ReadDecimal(schema.format, values)) {
    return NotRead(schema.format);
  }
  if (*type == Type::kFixedText && !ReadWidth(schema.format, "w:", &values.width)) {
    return NotRead(schema.format);
  }
  if (schema.dictionary == nullptr) return values;
  if (!IsInteger(*type) || schema.dictionary->dictionary != nullptr) return NotRead(schema.format);
  SIMURGH_ASSIGN_OR_RETURN(Values dictionary, ValuesOf(*schema.dictionary));
  values.dictionary = std::make_unique<Values>(std::move(dictionary));
  return values;
}

}  // namespace simurgh::arrow
