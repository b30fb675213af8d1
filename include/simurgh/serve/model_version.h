#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/model/model_directory.h"

namespace simurgh {

// The columns that a model's rows have, and what it predicts.
struct RowFormat {
  struct Column {
    std::string name;
    bool is_dense = false;  // A number; otherwise ids.
    bool is_list = false;   // Several ids.
    bool is_read = false;   // False: the model ignores the column.
  };

  std::vector<Column> columns;      // In the order of the data files, without labels.
  std::vector<std::string> labels;  // One or more.
};

// A trained model in memory, as of one step: feature processing, rows and dense weights.
//
// Threads: immutable; shared.
class ModelVersion {
 public:
  struct Options {
    std::vector<std::string> overrides;  // "section.key=value": plug-ins and vocabularies.
    bool allow_plugins = true;
  };

  // Reads a checkpoint and those that it continues. Predicts the rows of its probe.csv and
  // compares. Called with rows read and all rows; an error ends the load.
  using Progress = std::function<Status(uint64_t rows, uint64_t all_rows)>;
  static StatusOr<std::shared_ptr<const ModelVersion>> Load(const Checkpoint& checkpoint,
                                                            const Options& options,
                                                            const Progress& progress);
  // Reads only the delta `checkpoint`, which continues the checkpoint of `parent`, and shares the
  // parent's other rows.
  static StatusOr<std::shared_ptr<const ModelVersion>> LoadDelta(
      const Checkpoint& checkpoint, std::shared_ptr<const ModelVersion> parent,
      const Options& options);

  uint64_t step() const;
  int64_t step_time() const;  // When the step ended: seconds since 1970.
  const RowFormat& format() const;
};

}  // namespace simurgh
