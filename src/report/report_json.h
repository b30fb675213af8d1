#pragma once

#include <string>

#include "report/report.h"

namespace simurgh {

// Returns a report as one JSON object with all its numbers. Numbers that are not known are null,
// and bytes that are not UTF-8 become U+FFFD.
std::string ReportJson(const Report& report);

// Returns an importance as one JSON object, as in ReportJson(). labels: names of the labels.
std::string ImportanceJson(const Importance& importance, const std::vector<std::string>& labels);

}  // namespace simurgh
