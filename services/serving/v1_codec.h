#pragma once

#include <memory>

#include "services/serving/predict_request.h"

namespace simurgh {

// The v1 protocol: {"instances": [{"column": value, ...}, ...], "common": {...}}.
// A text or a number is the cell as it would be in a file; null or no key: missing; an array: the
// ids of a list. `common` has the columns that all instances share.
//
// Errors: INVALID_ARGUMENT with the first ten problems, OUT_OF_RANGE for too many rows or ids.
StatusOr<PredictRequest> DecodeV1(const RowFormat& format, const RequestLimits& limits,
                                  std::shared_ptr<RequestMemory> memory);

// {"predictions": [...], "model_version": "120"}: a number for each row, or a list with one for
// each label. Bad rows are null.
EncodedBody EncodeV1(const RowFormat& format, const ModelName& model, const ScoredRows& rows);

}  // namespace simurgh
