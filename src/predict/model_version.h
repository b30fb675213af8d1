#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

#include "base/status.h"
#include "config/calibration.h"
#include "config/cluster_config.h"
#include "config/embedding_form.h"
#include "model/model_directory.h"
#include "predict/remote_rows.h"
#include "train/program_state.h"

namespace simurgh {

class ProgramNetwork;

// The columns that a model's rows have, and what it predicts.
struct RowFormat {
  struct Column {
    std::string name;
    std::string header_name;    // Name in files, if it is another one.
    bool is_dense = false;      // The column has a number; otherwise ids.
    bool is_list = false;       // The column has several ids.
    bool is_read = false;       // False: the model ignores the column.
    bool is_converted = false;  // Dense: texts are not the numbers as written.
  };

  std::vector<Column> columns;      // In the order of data files; no labels and weights.
  std::vector<std::string> labels;  // One or more.
  bool is_json = false;             // The training's rows were JSON objects.
};

// Returns a file that this machine has, for keys that need one. It is not read.
std::string PresentFile(const Checkpoint& checkpoint);

// Returns the configuration in a checkpoint, with its fitted statistics, for predictions on this
// machine: addresses, data files, budgets and folders of the training are not used; plug-ins and
// vocabulary files are.
// overrides: "section.key=value", for plug-ins and vocabularies that are elsewhere.
// Errors: INVALID_ARGUMENT for a configuration that cannot be used here, naming the key; DATA_LOSS.
StatusOr<ClusterConfig> ConfigOfModel(const Checkpoint& checkpoint,
                                      const std::vector<std::string>& overrides);

// Checks the plug-ins in a model's configuration: native code that comes with the folder.
// Errors: INVALID_ARGUMENT if there is one and it is not allowed, naming it and the remedy.
Status CheckPlugins(const ClusterConfig& config, bool allowed);

// Errors: INVALID_ARGUMENT for a model whose predictions of single rows have no metrics, since they
// rank items.
Status CheckHasMetrics(const ClusterConfig& config);

// A trained model in memory, as of one step: feature processing, rows and dense weights.
//
// Threads: immutable; shared.
class ModelVersion {
 public:
  struct Options {
    std::vector<std::string> overrides;  // See ConfigOfModel().
    bool allow_plugins = false;          // See CheckPlugins().
    uint64_t max_bytes = UINT64_MAX;     // Size limit of the rows.
    // Loads only these rows, to answer reads of other processes: no predictions. Plug-ins are not
    // used.
    std::optional<RowShare> share;
    // The servers of the rows; null: the rows are in this process.
    std::shared_ptr<RemoteRows> remote;
    size_t hot_row_bytes = 0;  // Cache size of each predictor, for rows of servers.
    // Precision of the rows in memory, and in requests to servers: f32, as the model stores them;
    // bf16 or int8.
    VectorPrecision row_precision = VectorPrecision::kF32;
    bool maps_rows = false;  // Rows stay in their files. Requires row_precision f32.
    // Compares the checksums of mapped rows before they are used, instead of meanwhile.
    bool checks_mapped_first = false;
    // Also loads a model whose network is a program's: for features and rows, not for predictions.
    bool allow_hosted = false;
    // The network of a model whose network is a program's; null: no predictions.
    std::shared_ptr<ProgramNetwork> program;
  };

  // Called with rows read and all rows; an error ends the load.
  using Progress = absl::FunctionRef<Status(uint64_t rows, uint64_t all_rows)>;

  // Reads a checkpoint and those that it continues, then predicts the rows of its probe.csv and
  // compares. before: predictors of this version fit the new one if both have the same
  // configuration, which is then not read again; may be null.
  // Errors: of ConfigOfModel(), OpenRows() and CheckProbe(); INVALID_ARGUMENT for tables or dense
  // weights that do not fit the configuration, or a network that only a program has;
  // RESOURCE_EXHAUSTED without memory, or for more than max_bytes.
  static StatusOr<std::shared_ptr<const ModelVersion>> Load(const Checkpoint& checkpoint,
                                                            const Options& options,
                                                            Progress progress,
                                                            const ModelVersion* before = nullptr);

  // Loads a delta that continues this version. Reads only the delta, and shares the other rows with
  // this version. max_bytes: size limit of rows, besides those of this version. checks_probe: false
  // for a version that will not be used, but continued.
  // Errors: those of Load(); ABORTED if the checkpoint is no delta of this one, or has another
  // configuration: then use Load().
  StatusOr<std::shared_ptr<const ModelVersion>> Next(const Checkpoint& delta,
                                                     uint64_t max_bytes = UINT64_MAX,
                                                     bool checks_probe = true) const;

  ~ModelVersion();

  const std::string& folder() const { return folder_; }
  uint64_t step() const { return step_; }
  uint64_t checksum() const { return checksum_; }  // See Checkpoint.
  VersionName name() const { return {step_, checksum_, training_}; }
  // Time at which the step ended, in seconds since 1970.
  double step_time() const { return step_time_; }
  uint64_t rows() const;
  // Returns the size of rows and dense weights, without those shared with `besides`, which may be
  // null.
  uint64_t bytes(const ModelVersion* besides = nullptr) const;
  // Returns the damage that was found in mapped rows since the load. Cheap.
  Status damage() const;
  const ClusterConfig& config() const;
  const RowFormat& format() const;
  Calibration calibration(size_t label) const;  // Calibration of a label's predictions.
  // Returns the width of a user's and an item's vector. 0: the model has no such vectors.
  size_t vector_width() const;
  // Returns the state of the program's network; null without Options::program.
  std::shared_ptr<const ProgramState> program_state() const;

 private:
  friend class Predictor;
  friend StatusOr<RowAnswer> AnswerRead(const ModelVersion& version, VectorPrecision precision,
                                        std::span<const RowRead::Group> groups,
                                        std::span<const uint64_t> ids,
                                        absl::FunctionRef<RowMemory(size_t bytes)> allocate);
  struct Common;  // Parts that the versions of a run share.
  struct Parts;

  explicit ModelVersion(const Checkpoint& checkpoint);

  const std::string folder_;
  const uint64_t step_;
  const double step_time_;
  const uint64_t checksum_;
  const uint64_t training_;
  std::shared_ptr<const Common> common_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace simurgh
