#pragma once

#include <optional>
#include <string_view>

#include "config/data_config.h"
#include "data/processing/numbers.h"

namespace simurgh {

// Returns a date with or without a time of day as seconds since 1970, or a number as it is; nothing
// for another text. Dates have the form of ISO 8601, such as 2024-02-29, 2024/02/29 23:59 or
// 2024-02-29T23:59:59.5+01:00; without an offset they are in UTC. In another order they can also be
// 29.02.2024, 29/2/2024 9:05 or 29-02-2024 09:05 PM, or 02/29/2024.
std::optional<double> ParseTimeCell(std::string_view text, DateOrder order = DateOrder::kYearFirst);

// Returns a Unix time as days since 1970, UTC. The unit follows from the size: seconds up to the
// year 5138, then milliseconds, microseconds, nanoseconds.
double EpochDays(double number);

// Returns the days since 1970, UTC, of a date for ParseTimeCell(), of `20240131`, or of a Unix
// time; or nothing.
std::optional<double> ParseDateCell(std::string_view text, DateOrder order = DateOrder::kYearFirst);

// Returns the number of a cell of a column of single numbers.
inline std::optional<double> ParseCell(const ColumnConfig& column, std::string_view cell) {
  return column.date ? ParseDateCell(cell, column.date_order)
                     : ParseNumberCell(cell, column.numbers);
}

// Returns the hour of the day, 0 to 23, or the day of the week, 0 to 6 from Monday. days: since
// 1970, UTC.
int HourOf(double days);
int WeekdayOf(double days);

}  // namespace simurgh
