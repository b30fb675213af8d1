#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"

#include "base/status.h"
#include "config/table_config.h"
#include "embedding/batch_plan.h"
#include "embedding/raw_masks.h"
#include "model/model_directory.h"
#include "nn/dense_model.h"
#include "predict/model_version.h"
#include "predict/remote_rows.h"
#include "predict/row_table.h"

namespace simurgh {

// Functions that load the rows of a share from files of rows, of any number of servers. Layers are
// in the order of `tables`.

// Called with the rows read and all rows, those of other shares included; an error ends the load.
using RowProgress = absl::FunctionRef<Status(uint64_t rows, uint64_t all_rows)>;

// The rows to load, and how.
struct RowLoading {
  RowShare share;
  uint64_t max_bytes = UINT64_MAX;
  std::vector<RowEncoding> encodings;  // Indexed by table.
  bool is_mapped = false;              // Rows stay in their files. Requires encodings as stored.
  bool checks_first = false;           // Compares checksums of mapped rows before the return.
};

struct LoadedRows {
  std::vector<RowLayers> tables;
  std::shared_ptr<const WeightsCheck> check;  // The check of mapped rows; else null.
};

// Loads the rows of a checkpoint and of those that it continues. Reads all ids twice. Needs memory
// for the share's rows, or the index of mapped ones, and some 20 bytes for each id of deltas.
// Errors: those of OpenRows() and Map(); INVALID_ARGUMENT for other tables; RESOURCE_EXHAUSTED
// without memory, or for more than max_bytes.
StatusOr<LoadedRows> LoadRows(const Checkpoint& checkpoint, const std::vector<TableConfig>& tables,
                              const RowLoading& loading, RowProgress progress);

// Adds a delta to the rows of its parent. Also reads mapped rows of the delta once, to check them.
// Errors: those of LoadRows().
StatusOr<std::vector<RowLayers>> LoadDelta(const Checkpoint& delta,
                                           const std::vector<TableConfig>& tables,
                                           const RowLoading& loading,
                                           const std::vector<RowLayers>& before);

// The ids that a delta names, by table: rows that changed, came or went. ReadChangedIds reads ids
// only. It returns none if the delta has a table as a whole.
using ChangedIds = std::vector<std::vector<uint64_t>>;
StatusOr<std::optional<ChangedIds>> ReadChangedIds(const Checkpoint& delta,
                                                   const std::vector<TableConfig>& tables);

// The ids whose rows differ between a version and some of those before it.
//
// Threads: immutable.
class RowChanges {
 public:
  // Returns the changes up to the version that follows `before` with these ids. Forgets the oldest
  // ones.
  RowChanges With(uint64_t before, ChangedIds ids) const {
    RowChanges next;
    size_t count = Count(ids);
    next.steps_.push_back(std::make_shared<const Step>(before, std::move(ids)));
    for (const auto& step : steps_) {
      count += Count(step->ids);
      if (next.steps_.size() == kMaxSteps || count > kMaxIds) break;
      next.steps_.push_back(step);
    }
    return next;
  }

  // Calls drop(table, id) for each id that has changed since a version. Returns false, without a
  // call, if that is not known.
  bool Since(uint64_t checksum, absl::FunctionRef<void(uint32_t table, uint64_t id)> drop) const {
    size_t steps = 0;
    while (steps < steps_.size() && steps_[steps]->before != checksum) ++steps;
    if (steps == steps_.size()) return false;
    for (size_t i = 0; i <= steps; ++i) {
      for (uint32_t table = 0; table < steps_[i]->ids.size(); ++table) {
        for (const uint64_t id : steps_[i]->ids[table]) drop(table, id);
      }
    }
    return true;
  }

 private:
  struct Step {
    Step(uint64_t checksum, ChangedIds changed) : before(checksum), ids(std::move(changed)) {}

    uint64_t before;  // Checksum of the version that the ids change.
    ChangedIds ids;
  };
  // Number of steps that a predictor which scores rarely may miss.
  static constexpr size_t kMaxSteps = 16;
  static constexpr size_t kMaxIds = 1'000'000;

  static size_t Count(const ChangedIds& ids) {
    size_t count = 0;
    for (const auto& of_table : ids) count += of_table.size();
    return count;
  }

  std::vector<std::shared_ptr<const Step>> steps_;  // The newest first.
};

struct ModelVersion::Common {
  Common(ClusterConfig configuration, ModelVersion::Options loading, const Manifest& manifest);

  // Returns whether a checkpoint has the same configuration and statistics.
  bool Fits(const Manifest& manifest) const;

  const ClusterConfig config;
  const RowFormat format;
  const BatchLayout layout;
  const RawMasks masks;
  const ModelVersion::Options options;
  const std::vector<RowEncoding> encodings;  // Indexed by table.
  const std::map<std::string, std::vector<double>> statistics;
  const std::vector<std::string> source;  // Texts of the configuration.
};

struct ModelVersion::Parts {
  std::shared_ptr<const DenseModel> dense;      // Null in a version of a share.
  std::shared_ptr<const ProgramState> program;  // Null without ModelVersion::Options::program.
  std::vector<Calibration> calibrations;        // Indexed by label; empty: none.
  std::vector<RowLayers> tables;  // One per table of the configuration; empty if remote.
  std::shared_ptr<const WeightsCheck> check;  // The check of mapped rows; else null.
  RowChanges changes;                         // For caches of remote rows.
};

}  // namespace simurgh
