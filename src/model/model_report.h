#pragma once

#include <string>

#include "base/status.h"
#include "model/model_directory.h"

namespace simurgh {

// Lines for people, or one JSON object on a line for programs.
enum class ReportForm { kText, kJson };

// Returns the output of `simurgh model list`: a line per checkpoint, the oldest step first. As
// JSON: the list `checkpoints`.
// Errors: those of ModelDirectory::Steps.
StatusOr<std::string> ListCheckpoints(ModelDirectory& model, ReportForm form = ReportForm::kText);

// Returns the output of `simurgh model info`: the manifest, and the tensors of each file. As JSON:
// `folder`, `checksum`, `manifest` as in the file, and `tensors` by file.
// Errors: those of TensorFileReader::Open.
StatusOr<std::string> DescribeCheckpoint(const Checkpoint& checkpoint,
                                         ReportForm form = ReportForm::kText);

// Returns the output of `simurgh model diff`: a line for each table, dense tensor and fitted
// statistic that differs; empty if a prediction or further training cannot tell the models from
// each other. Rows are compared by id, on whatever server they are, with their optimizer state and
// ages. Not compared: steps, run, configuration, metrics, admission sketches and the state of
// single ranks.
// Memory: 16 bytes per row of both.
// Errors: those of TableReader and TensorFileReader.
StatusOr<std::string> DescribeDifferences(const Checkpoint& a, const Checkpoint& b);

// Writes a checkpoint, with those that it continues, as a full one into the new model `to`, for
// `simurgh model merge`. DescribeDifferences() of both is empty.
// Errors: INVALID_ARGUMENT if `to` has a checkpoint; those of OpenRows and CheckpointAttempt.
StatusOr<Checkpoint> MergeCheckpoint(const Checkpoint& checkpoint, const std::string& to);

}  // namespace simurgh
