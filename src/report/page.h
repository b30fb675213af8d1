#pragma once

#include <string>

#include "report/report.h"

namespace simurgh {

// Returns a report as one page of HTML: no scripts, and nothing that is loaded. Numbers have all
// their digits in elements <data>, as ReportJson() has them.
std::string ReportPage(const Report& report);

}  // namespace simurgh
