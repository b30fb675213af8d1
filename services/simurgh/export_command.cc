#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "retrieval/item_vectors.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "base/status.h"
#include "config/cluster_config.h"
#include "config/retrieval.h"
#include "config/statistics.h"
#include "data/batch/batch.h"
#include "data/reading/batch_reader.h"
#include "embedding/raw_masks.h"
#include "model/table_export.h"
#include "model/tensor_file.h"
#include "nn/onnx.h"
#include "predict/model_version.h"
#include "services/nn_worker/network_description.h"
#include "services/runtime/command_line.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/file_prediction.h"
#include "services/simurgh/output.h"
#include "services/simurgh/predict_input.h"
#include "services/simurgh/progress.h"
#include "services/simurgh/vector_file.h"
#include "telemetry/logging.h"
#include "train/dense_weights.h"

namespace simurgh {
namespace {

// Samples as a trainer processes them, for a file of tensors. F: a feature's name.
//
//   F.ids      U64 [n]        ids of rows, sample after sample; those of a hash stack after it
//   F.offsets  U64 [N + 1]    sample b has the ids [offsets[b], offsets[b + 1])
//   F.weights  F32 [n]        only for features with a weight_separator or a plug-in
//   dense      F32 [N, D]     scaled, then the masks of raw features; left out without columns
//   labels     F32 [N, T]     0 or 1, or the numbers of a regression
//   weights    F32 [N]        weights of the samples; only with a column of them
//
// Threads: one owner.
class FeatureExport {
 public:
  // config: with fitted statistics. folder: folder of a temporary file. has_labels: false to leave
  // them out. Errors: see TensorSpool.
  static StatusOr<FeatureExport> Create(const ClusterConfig& config, const std::string& folder,
                                        bool has_labels);

  // Adds the samples of a batch. Errors: see TensorSpool::Append.
  Status Add(Batch batch);
  TensorSpool& tensors() { return spool_; }
  uint64_t samples() const { return samples_; }

 private:
  struct Feature {
    size_t ids;  // Index of the feature's first tensor; offsets and weights follow.
    bool has_weights;
    uint64_t occurrences = 0;
  };

  FeatureExport(const ClusterConfig& config, TensorSpool spool, std::vector<Feature> features,
                size_t dense)
      : masks_(config.features),
        spool_(std::move(spool)),
        features_(std::move(features)),
        dense_(dense) {}

  RawMasks masks_;
  TensorSpool spool_;
  std::vector<Feature> features_;
  size_t dense_;  // Index of the tensor; labels and weights follow.
  bool has_dense_ = false;
  bool has_labels_ = false;
  uint64_t samples_ = 0;
};

template <typename T>
std::span<const std::byte> BytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

StatusOr<FeatureExport> FeatureExport::Create(const ClusterConfig& config,
                                              const std::string& folder, bool has_labels) {
  std::vector<TensorSpec> tensors;
  std::vector<Feature> features;
  for (const FeatureConfig& feature : config.features) {
    features.push_back({.ids = tensors.size(),
                        .has_weights = feature.weight_separator != '\0' ||
                                       !feature.processing.plugin.path.empty()});
    tensors.push_back({feature.name + ".ids", DType::kU64, {0}});
    tensors.push_back({feature.name + ".offsets", DType::kU64, {0}});
    if (features.back().has_weights)
      tensors.push_back({feature.name + ".weights", DType::kF32, {0}});
  }
  const size_t dense = tensors.size();
  const size_t width = InputsOf(config).dense_width;
  if (width > 0) tensors.push_back({"dense", DType::kF32, {0, width}});
  if (has_labels) tensors.push_back({"labels", DType::kF32, {0, LabelColumns(config.data).size()}});
  if (has_labels && HasSampleWeights(config.data)) {
    tensors.push_back({"weights", DType::kF32, {0}});
  }
  SIMURGH_ASSIGN_OR_RETURN(TensorSpool spool, TensorSpool::Create(folder, std::move(tensors)));
  FeatureExport result(config, std::move(spool), std::move(features), dense);
  result.has_dense_ = width > 0;
  result.has_labels_ = has_labels;
  const std::vector<uint64_t> zero = {0};
  for (const Feature& feature : result.features_) {
    SIMURGH_RETURN_IF_ERROR(result.spool_.Append(feature.ids + 1, BytesOf(zero)));
  }
  return result;
}

Status FeatureExport::Add(Batch batch) {
  masks_.AppendTo(batch);
  std::vector<uint64_t> numbers;
  for (size_t f = 0; f < features_.size(); ++f) {
    Feature& feature = features_[f];
    const FeatureView view = batch.sparse->feature(f);
    numbers.clear();
    for (const uint32_t occurrence : view.occurrences) numbers.push_back(view.ids[occurrence]);
    SIMURGH_RETURN_IF_ERROR(spool_.Append(feature.ids, BytesOf(numbers)));
    numbers.clear();
    for (const uint32_t offset : view.offsets.subspan(1)) {
      numbers.push_back(feature.occurrences + offset - view.offsets[0]);
    }
    SIMURGH_RETURN_IF_ERROR(spool_.Append(feature.ids + 1, BytesOf(numbers)));
    if (feature.has_weights) {
      std::vector<float> weights(view.weights.begin(), view.weights.end());
      weights.resize(view.occurrences.size(), 1.0F);  // A batch can leave out weights of 1.
      SIMURGH_RETURN_IF_ERROR(spool_.Append(feature.ids + 2, BytesOf(weights)));
    }
    feature.occurrences += view.occurrences.size();
  }
  size_t next = dense_;
  if (has_dense_) SIMURGH_RETURN_IF_ERROR(spool_.Append(next++, BytesOf(batch.dense.values)));
  const std::span<const float> weights = batch.dense.weights();
  if (has_labels_) {
    const std::span<const float> labels(batch.dense.labels);
    SIMURGH_RETURN_IF_ERROR(
        spool_.Append(next++, std::as_bytes(labels.first(labels.size() - weights.size()))));
    if (!weights.empty()) SIMURGH_RETURN_IF_ERROR(spool_.Append(next, std::as_bytes(weights)));
  }
  samples_ += batch.size();
  return absl::OkStatus();
}

namespace po = boost::program_options;

struct ExportOptions {
  CheckpointChoice checkpoint;
  std::string output;
  std::vector<std::string> overrides;
  std::string table;
  std::string ids;
  bool has_all_tensors = false;
  std::string input;
  bool unlabeled = false;
  bool allow_plugins = false;
  std::string tower = "item";
  std::string id;
};

// Calls write(path) for a temporary file, which gets its name when it is complete.
Status WriteFile(const std::string& path, absl::FunctionRef<Status(const std::string&)> write) {
  UnfinishedFile unfinished(path);
  Status written = write(unfinished.name());
  if (written.ok()) written = unfinished.Finish();
  return Annotate(written, absl::StrCat("--output ", path));
}

constexpr char kOnnxNotes[] =
    R"(Writes the towers, opset 17. Inputs are `dense` [N, columns] and `embeddings` [N, columns],
without those of no columns. Outputs are the predictions `p` [N], or `p_LABEL` of each of
several labels, as `simurgh predict` writes them. The model's metadata `network` describes
the columns in JSON: src/model/FORMAT.md.
)";

StatusOr<ExitCode> ExportOnnx(const ExportOptions& options) {
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint checkpoint, options.checkpoint.Find());
  SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig config,
                           ConfigOfModel(checkpoint, options.overrides));
  if (config.model.is_hosted()) {
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint.folder,
                     ": the network is a program's, which can export it, for example by "
                     "torch.onnx; simurgh export embeddings and features work"));
  }
  SIMURGH_ASSIGN_OR_RETURN(TensorFileReader dense, checkpoint.OpenTensors("dense.safetensors"));
  const StatusOr<DenseWeights> weights = ReadDenseWeights(dense, config);
  if (!weights.ok()) return Annotate(weights.status(), checkpoint.Path("dense.safetensors"));
  const std::vector<std::string> labels = LabelColumns(config.data);
  SIMURGH_ASSIGN_OR_RETURN(std::vector<Calibration> calibrations,
                           ReadCalibrations(checkpoint.manifest, labels.size()));
  SIMURGH_ASSIGN_OR_RETURN(
      const std::string model,
      OnnxModel(config.model, InputsOf(config), weights->parameters, weights->statistics,
                {.outputs = OutputNames(labels),
                 .kept_negatives = config.training.keep_negatives,
                 .calibrations = std::move(calibrations),
                 .scales = LabelScalesOf(config.data),
                 .step = checkpoint.manifest.step,
                 .metadata = {{"network", DescribeNetwork(config)},
                              {"step", absl::StrCat(checkpoint.manifest.step)}}}));
  SIMURGH_ASSIGN_OR_RETURN(const auto file, OutputFile::Open(options.output));
  SIMURGH_RETURN_IF_ERROR(file->Append(model));
  SIMURGH_RETURN_IF_ERROR(file->Finish());
  return ExitCode::kOk;
}

constexpr char kEmbeddingsNotes[] =
    R"(Writes `id` [rows] and `weights` [rows, dim] of each table, in f32. FILE ends in
.safetensors, .npz or .csv, or is - for CSV on stdout. For several tables, FILE has {table}
in it, which is replaced by a table's name. IDS is a file with a number on each line, as
`id` has it: of texts their hashes, which simurgh export features prints. Ids without a row
are left out. tables.N.initial_rows starts a training from a .safetensors file.

Example:
  simurgh export embeddings --model /models/adult --output '/tmp/{table}.safetensors'
)";

StatusOr<std::optional<std::vector<uint64_t>>> ReadIds(const std::string& path) {
  if (path.empty()) return std::nullopt;
  std::ifstream file(path);
  std::vector<uint64_t> ids;
  std::string line;
  while (std::getline(file, line)) {
    if (!absl::SimpleAtoi(line, &ids.emplace_back())) {
      return OptionProblem(
          absl::StrCat("--ids ", path, ":", ids.size(), ": '", line, "' is not an id"));
    }
  }
  if (!file.eof()) return OptionProblem(absl::StrCat("--ids ", path, ": cannot read the file"));
  return ids;
}

Status ExportTable(const Checkpoint& checkpoint, const TableExport& table,
                   const std::string& path) {
  if (path.ends_with(".npz")) {
    return WriteFile(path, [&](const auto& file) { return ExportNpz(checkpoint, table, file); });
  }
  if (path.ends_with(".safetensors")) {
    return WriteFile(path,
                     [&](const auto& file) { return ExportTensors(checkpoint, table, file); });
  }
  if (path != "-" && !path.ends_with(".csv")) {
    return OptionProblem(absl::StrCat("--output ", path,
                                      ": its format is not known; use a name that ends in "
                                      ".safetensors, .npz or .csv, or - for CSV on stdout"));
  }
  SIMURGH_ASSIGN_OR_RETURN(const auto file, OutputFile::Open(path));
  const auto append = [&file](std::string_view text) { return file->Append(text); };
  SIMURGH_RETURN_IF_ERROR(ExportCsv(checkpoint, table, append));
  return file->Finish();
}

StatusOr<ExitCode> ExportEmbeddings(const ExportOptions& options) {
  constexpr char kTable[] = "{table}";
  SIMURGH_ASSIGN_OR_RETURN(const auto ids, ReadIds(options.ids));
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint checkpoint, options.checkpoint.Find());
  std::vector<std::string> tables = TableReader::TablesOf(checkpoint.manifest);
  if (!options.table.empty()) tables = {options.table};
  if (tables.size() > 1 && options.output.find(kTable) == std::string::npos) {
    return OptionProblem(absl::StrCat("--output ", options.output, ": the model has ",
                                      tables.size(), " tables; add ", kTable,
                                      " to the name, or choose a --table"));
  }
  for (const std::string& table : tables) {
    const TableExport rows{.table = table, .ids = ids, .has_all_tensors = options.has_all_tensors};
    SIMURGH_RETURN_IF_ERROR(
        ExportTable(checkpoint, rows, absl::StrReplaceAll(options.output, {{kTable, table}})));
  }
  return ExitCode::kOk;
}

constexpr char kFeaturesNotes[] =
    R"(Processes rows as training does. The input has the format of the training data, also
compressed by gzip or zstd. FILE ends in .safetensors or .npz. For each feature F it has `F.ids`
and `F.offsets`: sample b has the ids from offsets[b] to before offsets[b + 1]. `F.weights` is
there for features with a weight_separator or a plug-in. `dense` [rows, columns] are the scaled
numbers, and the masks of raw features. `labels` [rows, labels] are 0 or 1, or the numbers of a
regression; `weights` [rows] are those of samples. The metadata `network` of a .safetensors file
describes the columns: src/model/FORMAT.md.

Bad rows are left out; stderr has their number and the first reasons. The folder of FILE
needs room for twice its size.
)";

StatusOr<ExitCode> ExportFeatures(const ExportOptions& options) {
  constexpr size_t kBatchRows = 1'024;
  if (options.input.empty()) return OptionProblem("--input is missing");
  const bool is_npz = options.output.ends_with(".npz");
  if (!is_npz && !options.output.ends_with(".safetensors")) {
    return OptionProblem(
        absl::StrCat("--output ", options.output,
                     ": its format is not known; use a name that ends in .safetensors or .npz"));
  }
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint checkpoint, options.checkpoint.Find());
  SIMURGH_ASSIGN_OR_RETURN(ClusterConfig config, ConfigOfModel(checkpoint, options.overrides));
  SIMURGH_RETURN_IF_ERROR(CheckPlugins(config, options.allow_plugins));
  PrintOverrides(checkpoint, options.overrides, config);
  config.data.on_bad_row = DataConfig::OnBadRow::kSkip;
  config.data.max_bad_share = 1;
  const ReadOptions reading{.ignore_labels = options.unlabeled, .allow_pipes = true};
  SIMURGH_ASSIGN_OR_RETURN(
      const auto reader,
      OpenBatchReader(config.data, config.features,
                      {options.input == "-" ? "/dev/stdin" : options.input}, kBatchRows, reading));
  const std::string folder = std::filesystem::absolute(options.output).parent_path().string();
  SIMURGH_ASSIGN_OR_RETURN(auto features,
                           FeatureExport::Create(config, folder, !options.unlabeled));
  ProgressLine line;
  for (;;) {
    SIMURGH_ASSIGN_OR_RETURN(std::optional<Batch> batch, reader->Next());
    if (!batch) break;
    SIMURGH_RETURN_IF_ERROR(features.Add(*std::move(batch)));
    line.Show("processing", features.samples(), "");
  }
  const double seconds = line.seconds();
  line.End();
  SIMURGH_RETURN_IF_ERROR(WriteFile(options.output, [&](const auto& file) {
    TensorSpool& tensors = features.tensors();
    return is_npz ? tensors.WriteNpz(file)
                  : tensors.WriteTensors(file, {{"network", DescribeNetwork(config)}});
  }));
  std::fprintf(stderr, "simurgh: processed: rows=%llu bad_rows=%llu seconds=%.2f\n",
               static_cast<unsigned long long>(features.samples()),
               static_cast<unsigned long long>(reader->skipped_rows()), seconds);
  return ExitCode::kOk;
}

constexpr char kVectorsNotes[] =
    R"(Writes the vectors of a model of two towers, for an index of nearest neighbours. The
input has a row an item (--tower user: a row a user), and the columns of that tower, by name. FILE
ends in .npz, .safetensors, .parquet or .csv. It has `ids` and `vectors` [rows, dim], f32. In .npz
and .parquet ids are int64 if all are integers, else texts. In .safetensors they are U64, or else
`ids.bytes` with `ids.offsets`. A line of CSV has the id and "[x,y,...]".

The dot product of a user's and an item's vector is what simurgh predict writes. So an index of
inner products finds the items that the model ranks first.

Examples:
  simurgh export vectors --model /models/shop --input items.csv --output items.npz
  simurgh export vectors --model /models/shop --tower user --input users.csv --output users.npz
)";

// Returns the column that names the rows of a side. Errors: INVALID_ARGUMENT if it is not known.
StatusOr<std::string> IdColumn(const ClusterConfig& config, TowerSide side,
                               const std::string& given) {
  if (!given.empty()) return given;
  const ItemsConfig& items = config.data.items;
  const std::string& of_config = side == TowerSide::kItem ? items.id : items.user;
  if (!of_config.empty()) return of_config;
  SIMURGH_ASSIGN_OR_RETURN(const std::string tower, TowerOf(config, side));
  const std::vector<std::string> ids = IdColumnsOfTower(config, tower);
  if (ids.size() == 1) return ids[0];
  return OptionProblem(
      absl::StrCat("--id is missing; the tower reads ", ids.empty() ? "no id column" : "several: ",
                   absl::StrJoin(ids, ", "), "; name the column whose text names a row"));
}

StatusOr<ExitCode> ExportVectors(const ExportOptions& options) {
  if (options.input.empty()) return OptionProblem("--input is missing");
  if (options.tower != "item" && options.tower != "user") {
    return OptionProblem(
        absl::StrCat("--tower: '", options.tower, "' is not a tower; use item or user"));
  }
  if (!HasVectorFormat(options.output)) {
    return OptionProblem(
        absl::StrCat("--output ", options.output,
                     ": its format is not known; use a name that ends in .npz, .safetensors, "
                     ".parquet or .csv"));
  }
  const TowerSide side = options.tower == "item" ? TowerSide::kItem : TowerSide::kUser;
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint checkpoint, options.checkpoint.Find());
  SIMURGH_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelVersion> model,
                           LoadVersion(checkpoint, options.overrides, options.allow_plugins));
  PrintOverrides(checkpoint, options.overrides, model->config());
  SIMURGH_ASSIGN_OR_RETURN(const std::string id, IdColumn(model->config(), side, options.id));
  SIMURGH_ASSIGN_OR_RETURN(const PredictInput input, InputOf(model->config().data, options.input));
  SIMURGH_RETURN_IF_ERROR(CheckReplacesNone(input.files, options.output));
  std::vector<std::string> ids;
  std::vector<float> vectors;
  SIMURGH_ASSIGN_OR_RETURN(const size_t dim, VectorWidth(model->config()));
  ProgressLine line;
  if (side == TowerSide::kItem) {
    SIMURGH_ASSIGN_OR_RETURN(ItemVectors items,
                             ReadItemVectors(*model, input.data, input.files, id));
    if (items.without_row > 0) {
      std::fprintf(stderr, "simurgh: items without a row in the model: %llu of %llu\n",
                   static_cast<unsigned long long>(items.without_row),
                   static_cast<unsigned long long>(items.size()));
    }
    ids = items.ids.texts();
    vectors = std::move(items.vectors);
  } else {
    SIMURGH_RETURN_IF_ERROR(
        ForEachVector(*model, input.data, {.side = side, .files = input.files, .texts = {id}},
                      [&](const VectorRows& rows) {
                        const std::span<const float> numbers = rows.vectors.flat();
                        ids.insert(ids.end(), rows.texts.begin(), rows.texts.end());
                        vectors.insert(vectors.end(), numbers.begin(), numbers.end());
                        line.Show("exporting", ids.size(), "");
                        return absl::OkStatus();
                      }));
  }
  const double seconds = line.seconds();
  line.End();
  SIMURGH_RETURN_IF_ERROR(WriteFile(options.output, [&](const std::string& file) {
    return WriteVectors(file, options.output, ids, vectors, dim);
  }));
  std::fprintf(stderr, "simurgh: exported: rows=%llu dim=%llu seconds=%.2f\n",
               static_cast<unsigned long long>(ids.size()), static_cast<unsigned long long>(dim),
               seconds);
  return ExitCode::kOk;
}

void AddOverrides(po::options_description& options, ExportOptions& own) {
  options.add_options()("set", po::value(&own.overrides)->value_name("KEY=VALUE"),
                        "change a configuration key, such as the path of a vocabulary; may repeat");
}

void AddEmbeddingsOptions(po::options_description& options, ExportOptions& own) {
  options.add_options()("table", po::value(&own.table)->value_name("TABLE"),
                        "export only this table")("ids", po::value(&own.ids)->value_name("IDS"),
                                                  "export only rows of these ids")(
      "all-tensors", po::bool_switch(&own.has_all_tensors),
      "also export uses, recency and the optimizer's state");
}

void AddFeaturesOptions(po::options_description& options, ExportOptions& own) {
  options.add_options()("input", po::value(&own.input)->value_name("FILE"),
                        "read rows from FILE; -: stdin")(
      "allow-plugins", po::bool_switch(&own.allow_plugins), kAllowPlugins)(
      "unlabeled", po::bool_switch(&own.unlabeled),
      "leave out the labels, whose columns may then be missing");
  AddOverrides(options, own);
}

void AddVectorsOptions(po::options_description& options, ExportOptions& own) {
  options.add_options()("tower", po::value(&own.tower)->value_name("TOWER"),
                        "export vectors of the item tower (default) or the user tower")(
      "input", po::value(&own.input)->value_name("FILE"),
      "read rows from FILE, a folder or a pattern; -: stdin")(
      "id", po::value(&own.id)->value_name("NAME"),
      "name the rows by this column (default: data.items.id, or the tower's only id column)")(
      "allow-plugins", po::bool_switch(&own.allow_plugins), kAllowPlugins);
  AddOverrides(options, own);
}

struct Action {
  const char* name;
  const char* notes;
  void (*add_options)(po::options_description& options, ExportOptions& own);
  StatusOr<ExitCode> (*run)(const ExportOptions& options);
};

constexpr std::array kActions = {
    Action{"onnx", kOnnxNotes, AddOverrides, ExportOnnx},
    Action{"embeddings", kEmbeddingsNotes, AddEmbeddingsOptions, ExportEmbeddings},
    Action{"features", kFeaturesNotes, AddFeaturesOptions, ExportFeatures},
    Action{"vectors", kVectorsNotes, AddVectorsOptions, ExportVectors}};

constexpr char kExportNotes[] =
    R"(simurgh export ACTION --help describes an action. A file appears when it is complete.

Exit codes: 0 done, 2 bad arguments or configuration, 3 damaged or failed otherwise.
)";

ExitCode Run(const Action* action, int argc, const char* const* argv) {
  ExportOptions own;
  po::options_description options("Options");
  own.checkpoint.AddTo(options);
  options.add_options()("output", po::value(&own.output)->value_name("FILE"), "write FILE");
  if (action != nullptr) action->add_options(options, own);
  const CommandHelp help{"export: writes a trained model for other programs", kExportUsage,
                         action == nullptr ? kExportNotes : action->notes};
  const auto run = [&](const std::vector<std::string>& words) -> StatusOr<ExitCode> {
    if (action == nullptr) {
      return OptionProblem(
          absl::StrCat("export: '", words.empty() ? "" : words[0],
                       "' is not an action; use onnx, embeddings, features or vectors"));
    }
    if (own.checkpoint.model.empty()) return OptionProblem("--model is missing");
    if (own.output.empty()) return OptionProblem("--output is missing");
    SIMURGH_RETURN_IF_ERROR(InitLogging("simurgh", "warn"));
    std::signal(SIGPIPE, SIG_IGN);  // A write to a closed pipe returns the error.
    return action->run(own);
  };
  return RunCommand(argc, argv, help, options, action == nullptr ? SIZE_MAX : 0, run);
}

}  // namespace

ExitCode RunExportCommand(int argc, const char* const* argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const auto* const action = std::ranges::find(kActions, name, &Action::name);
  if (action == kActions.end()) return Run(nullptr, argc, argv);
  return Run(action, argc - 1, argv + 1);
}

}  // namespace simurgh
