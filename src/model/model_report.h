#pragma once

#include <string>

#include "base/status.h"
#include "model/model_directory.h"

namespace simurgh {

// For people: lines. For programs: one JSON object on a line.
enum class ReportForm { kText, kJson };

// What `simurgh model list` prints: a line per checkpoint, the oldest step first. As JSON: the list
// `checkpoints`.
// Errors: of ModelDirectory::Steps.
StatusOr<std::string> ListCheckpoints(ModelDirectory& model, ReportForm form = ReportForm::kText);

// What `simurgh model info` prints: the manifest, and the tensors of each file. As JSON: `folder`,
// `checksum`, `manifest` as in the file, and `tensors` by file.
// Errors: of TensorFileReader::Open.
StatusOr<std::string> DescribeCheckpoint(const Checkpoint& checkpoint,
                                         ReportForm form = ReportForm::kText);

// What `simurgh model diff` prints: a line for each table, dense tensor and fitted statistic that
// differs; empty if a prediction or further training cannot tell the models from each other. Rows
// are compared by id, on whatever server they are, with their optimizer state and ages. Not
// compared: steps, run, configuration, metrics, admission sketches and what single ranks have.
// Memory: 16 bytes per row of both.
// Errors: of TableReader and TensorFileReader.
StatusOr<std::string> DescribeDifferences(const Checkpoint& a, const Checkpoint& b);

// What `simurgh model merge` does: writes a checkpoint, with those that it continues, as a full one
// into the new model `to`. DescribeDifferences() of both is empty.
// Errors: INVALID_ARGUMENT if `to` has a checkpoint; of OpenRows and CheckpointAttempt.
StatusOr<Checkpoint> MergeCheckpoint(const Checkpoint& checkpoint, const std::string& to);

}  // namespace simurgh
