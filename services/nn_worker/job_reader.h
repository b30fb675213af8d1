#pragma once

#include <memory>

#include "services/nn_worker/id_overlap_report.h"
#include "simurgh/data/batch_reader.h"
#include "simurgh/feature/raw_masks.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// What every batch passes, wherever it comes from and whatever it is for: appends the masks of raw
// features and counts the bad rows that the reader leaves out.
//
// collisions: told how ids collide; null: nobody is.
// Lifetime: all but the reader outlive the result.
std::unique_ptr<BatchReader> NewJobReader(std::unique_ptr<BatchReader> reader,
                                          const RawMasks& masks, Counter& skipped_rows,
                                          IdOverlapReport* collisions);

}  // namespace simurgh
