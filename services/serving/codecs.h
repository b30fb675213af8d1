#pragma once

#include <memory>
#include <optional>
#include <vector>

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

// The Open Inference Protocol, version 2, with the binary tensor extension.
//
// Inputs are the columns, one tensor each, of shape [N] or [N,1]; a tensor of one element holds for
// all rows. BYTES: the cell as in a file. INT64: its decimal text. FP64, FP32: a dense column.
// Outputs: an FP32 tensor of shape [N,1] for each label.

// json_bytes: Inference-Header-Content-Length; binary tensors follow. Binary texts refer to the
// body.
// Errors: INVALID_ARGUMENT with the first ten problems, OUT_OF_RANGE for too many rows.
StatusOr<PredictRequest> DecodeV2(const RowFormat& format, const RequestLimits& limits,
                                  std::optional<size_t> json_bytes,
                                  std::shared_ptr<RequestMemory> memory);

// request: for its id and outputs. Bad rows are null, NaN in binary tensors.
EncodedBody EncodeV2(const RowFormat& format, const ModelName& model, const PredictRequest& request,
                     const ScoredRows& rows);

// GET /v2, /v2/models/NAME and /v2/models/NAME/config.
std::string ServerMetadata();
std::string ModelMetadata(const RowFormat& format, const std::string& name,
                          const std::vector<uint64_t>& steps);
std::string ModelConfigJson(const RowFormat& format, const std::string& name, size_t max_rows);

}  // namespace simurgh
