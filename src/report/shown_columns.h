#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/data_config.h"
#include "predict/model_version.h"
#include "report/importance.h"
#include "report/input_scan.h"
#include "report/segments.h"

namespace simurgh {

// Returns the columns whose segments may be shown without being asked for: the model reads them or
// groups rows by them, and each row has one value of them.
std::vector<std::string> SegmentCandidates(const ModelVersion& model, const DataConfig& data);

// Returns the segments that a page shows. are_wanted: those of `by` were asked for, and all are
// shown. Else they are up to three of the counted columns: a group's first, then those that matter
// most. importance: or none. Must be called once for a scan.
std::vector<SegmentsReport> ShownSegments(InputScan& scan,
                                          const std::optional<Importance>& importance,
                                          const DataConfig& data, bool are_wanted);

}  // namespace simurgh
