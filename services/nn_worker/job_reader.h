#pragma once

#include <memory>

#include "services/nn_worker/id_overlap_report.h"
#include "simurgh/data/batch_reader.h"
#include "simurgh/feature/raw_masks.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// Wraps a reader: appends the masks of raw features and counts the bad rows that it skips.
//
// id_overlap: gets the batches; may be null.
// Lifetime: all but the reader outlive the result.
std::unique_ptr<BatchReader> NewJobReader(std::unique_ptr<BatchReader> reader,
                                          const RawMasks& masks, Counter& skipped_rows,
                                          IdOverlapReport* id_overlap);

}  // namespace simurgh
