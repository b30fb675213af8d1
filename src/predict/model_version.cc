#include "predict/model_version.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include "base/step_id.h"
#include "config/statistics.h"
#include "config/uri.h"
#include "data/reading/batch_reader.h"
#include "model/tensor_file.h"
#include "predict/predictor.h"
#include "predict/version_rows.h"
#include "train/dense_weights.h"

namespace simurgh {
namespace {

StatusOr<std::string> TextOf(const Checkpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.manifest.extra.find(name);
  if (found != checkpoint.manifest.extra.end()) return found->second;
  return absl::DataLossError(absl::StrCat(checkpoint.Path("manifest.json"), ": extra.", name,
                                          " is missing; use a checkpoint of this program"));
}

// Replaces what belongs to the training's machines. Keys that need a file get one that exists; it
// is not read. A model without validation or test stays without.
std::vector<std::string> LocalOverrides(const Checkpoint& checkpoint) {
  const std::string path = PresentFile(checkpoint);
  const std::string file =
      absl::StrCat("\"", absl::StrReplaceAll(path, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
  std::vector<std::string> overrides = {
      absl::StrCat("cluster.token_file=", file),
      absl::StrCat("data.train=[", file, "]"),
      "rpc={}",
      "loaders={}",
      "embedding_ps={instances: [{address: \"unix:///embedding-ps\"}]}",
      "embedding_worker.instances=[{address: \"unix:///embedding-worker\"}]",
      "nn_worker.instances=[{address: \"unix:///nn-worker\"}]"};
  const auto& given = checkpoint.manifest.config;
  for (const std::string key : {"data.validation", "data.test", "data.items.files"}) {
    const auto found = std::ranges::find(given, key, &std::pair<std::string, std::string>::first);
    if (found != given.end()) overrides.push_back(absl::StrCat(key, "=[", file, "]"));
  }
  return overrides;
}

constexpr char kDense[] = "dense.safetensors";

RowFormat FormatOf(const ClusterConfig& config) {
  RowFormat format{.columns = {},
                   .labels = LabelColumns(config.data),
                   .is_json = config.data.format == DataConfig::Format::kJson};
  std::vector<std::string> read;
  for (const FeatureConfig& feature : config.features) {
    const std::vector<std::string> sources = feature.sources();
    read.insert(read.end(), sources.begin(), sources.end());
  }
  for (const DerivedConfig& derived : config.data.derived) {
    read.insert(read.end(), derived.columns.begin(), derived.columns.end());
  }
  const bool has_lists = config.data.format == DataConfig::Format::kJson || IsArrow(config.data);
  for (const ColumnConfig& column : ColumnsOf(config.data)) {
    if (IsTarget(column.kind)) continue;
    const bool is_dense = column.kind == ColumnConfig::Kind::kDense;
    format.columns.push_back(
        {.name = column.name,
         .header_name = HeaderName(column) == column.name ? "" : HeaderName(column),
         .is_dense = is_dense && column.width == 1,
         .is_list = column.separator != '\0' || column.width > 1 || (!is_dense && has_lists),
         .is_read = is_dense || std::ranges::find(read, column.name) != read.end(),
         .is_converted = IsConverted(column)});
  }
  return format;
}

double StepTimeOf(const Manifest& manifest) {
  const auto found = manifest.extra.find("step_time");
  double seconds = 0;
  if (found != manifest.extra.end() && absl::SimpleAtod(found->second, &seconds)) return seconds;
  return static_cast<double>(manifest.step_time);
}

StatusOr<std::shared_ptr<const DenseModel>> LoadDense(const Checkpoint& checkpoint,
                                                      const ClusterConfig& config) {
  SIMURGH_ASSIGN_OR_RETURN(
      std::shared_ptr<DenseModel> dense,
      DenseModel::Create(config.model, InputsOf(config), config.nn_worker.precision));
  SIMURGH_ASSIGN_OR_RETURN(TensorFileReader file, checkpoint.OpenTensors(kDense));
  StatusOr<DenseWeights> weights = ReadDenseWeights(file, config);
  if (!weights.ok()) return Annotate(weights.status(), checkpoint.Path(kDense));
  std::ranges::copy(weights->parameters, dense->parameters().begin());
  std::ranges::copy(weights->statistics, dense->statistics().begin());
  SIMURGH_RETURN_IF_ERROR(dense->Pack());
  return dense;
}

// Returns whether a program computes the network. Errors: INVALID_ARGUMENT unless the options
// expect that.
StatusOr<bool> IsHosted(const Checkpoint& checkpoint, const ModelVersion::Options& options,
                        const ClusterConfig& config) {
  if (!config.model.is_hosted()) {
    if (options.program == nullptr) return false;
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint.folder,
                     ": the network of this model is that of its configuration, "
                     "not of a program; use simurgh serve"));
  }
  if (options.program == nullptr && !options.allow_hosted) {
    SIMURGH_RETURN_IF_ERROR(CheckHasNetwork(checkpoint));
  }
  return true;
}

StatusOr<std::shared_ptr<const ProgramState>> LoadProgram(const Checkpoint& checkpoint,
                                                          const ModelVersion::Options& options) {
  if (options.program == nullptr) return nullptr;
  SIMURGH_ASSIGN_OR_RETURN(ProgramState state, ReadProgram(checkpoint));
  return std::make_shared<const ProgramState>(std::move(state));
}

StatusOr<std::vector<Calibration>> LoadCalibrations(const Checkpoint& checkpoint,
                                                    const ClusterConfig& config) {
  auto calibrations = ReadCalibrations(checkpoint.manifest, LabelColumns(config.data).size());
  if (!calibrations.ok()) return Annotate(calibrations.status(), checkpoint.folder);
  return calibrations;
}

// Returns the texts that a program makes the configuration from, in the order of a manifest.
std::vector<std::string> SourceOf(const Manifest& manifest) {
  std::vector<std::string> source;
  for (const char* name : {"yaml", "yaml.path", "yaml.overrides"}) {
    const auto found = manifest.extra.find(name);
    source.push_back(found == manifest.extra.end() ? "" : found->second);
  }
  return source;
}

constexpr char kProbe[] = "probe.csv";
constexpr uint64_t kMaxProbeBytes = uint64_t{256}
                                    << 20;  // Lines have at most 1 MiB, quotes are doubled.

// Largest difference of a probability, or of a number in parts of it or of 1. Products of lower
// precision, and networks of programs, differ between devices, and rows of lower precision from
// those of the training.
double Tolerance(const ClusterConfig& config, VectorPrecision rows) {
  if (rows == VectorPrecision::kInt8) return 5e-2;
  if (rows == VectorPrecision::kBf16) return 2e-2;
  const bool is_exact =
      config.nn_worker.precision == ComputePrecision::kF32 && !config.model.is_hosted();
  return is_exact ? 1e-6 : 1e-2;
}

struct ProbeRow {
  std::vector<float> probabilities;  // Indexed by label.
  std::string line;
};

// Takes a quoted row and the line end behind it from `rest`; returns nothing if there is none.
std::optional<std::string> TakeQuoted(std::string_view& rest) {
  if (!rest.starts_with('"')) return std::nullopt;
  std::string row;
  for (size_t i = 1; i + 1 < rest.size(); ++i) {
    const bool is_quote = rest[i] == '"';
    if (is_quote && rest[i + 1] == '\n') {
      rest.remove_prefix(i + 2);
      return row;
    }
    if (is_quote && rest[++i] != '"') return std::nullopt;
    row.push_back(rest[i]);
  }
  return std::nullopt;
}

// Errors: DATA_LOSS, naming the row.
StatusOr<std::vector<ProbeRow>> ParseProbe(std::string_view text, size_t tasks) {
  std::vector<ProbeRow> rows;
  std::string_view rest = text.substr(std::min(text.find('\n'), text.size() - 1) + 1);
  while (!rest.empty()) {
    ProbeRow row;
    bool is_valid = true;
    for (size_t task = 0; task < tasks; ++task) {
      const size_t comma = std::min(rest.find(','), rest.size());
      float number = 0;
      const auto end = std::from_chars(rest.data(), rest.data() + comma, number);
      is_valid = is_valid && end.ec == std::errc() && end.ptr == rest.data() + comma;
      row.probabilities.push_back(number);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    const std::optional<std::string> line = TakeQuoted(rest);
    if (!is_valid || !line) {
      return absl::DataLossError(
          absl::StrCat(kProbe, ": row ", rows.size() + 1,
                       " is not probabilities and a row of the data; use another checkpoint"));
    }
    row.line = *line;
    rows.push_back(std::move(row));
  }
  return rows;
}

// Predicts the rows of a checkpoint's probe.csv and compares. A checkpoint without one passes.
// Errors: FAILED_PRECONDITION for a difference, naming the row and both numbers; DATA_LOSS for a
// damaged probe; of Predictor.
Status CheckProbe(const Checkpoint& checkpoint, const ModelVersion& model,
                  const ModelVersion::Options& options) {
  if (!checkpoint.Has(kProbe)) return absl::OkStatus();
  SIMURGH_ASSIGN_OR_RETURN(const std::string text, checkpoint.ReadText(kProbe, kMaxProbeBytes));
  const size_t tasks = model.format().labels.size();
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<ProbeRow> rows, ParseProbe(text, tasks));
  const double tolerance = Tolerance(model.config(), options.row_precision);
  // A score near 0 is a sum of terms as large as those of a score of 1 / temperature.
  const bool has_scores = IsInBatch(model.config().model);
  const double unit =
      has_scores ? 10.0 / TasksOf(model.config().model).front().loss.temperature : 1.0;
  const char* const remedy =
      options.row_precision != VectorPrecision::kF32 ? ", and serving.row_precision: f32"
      : options.remote != nullptr ? ", and the serving.row_precision of the servers of rows"
                                  : "";
  SIMURGH_ASSIGN_OR_RETURN(Predictor predictor, Predictor::Create(model));
  for (size_t i = 0; i < rows.size(); ++i) {
    const Status parsed = predictor.rows().AddLine(rows[i].line);
    if (parsed.ok()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(checkpoint.Path(kProbe), ": row ", i + 1, ": ", std::string(parsed.message()),
                     "; use the plug-ins and vocabularies of the training"));
  }
  SIMURGH_ASSIGN_OR_RETURN(Batch batch, predictor.rows().Build());
  std::vector<float> probabilities;
  SIMURGH_RETURN_IF_ERROR(predictor.Predict(model, batch, probabilities));
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t task = 0; task < tasks; ++task) {
      const double found = probabilities[i * tasks + task];
      const double wanted = rows[i].probabilities[task];
      const Calibration calibration = model.calibration(task);
      const double allowed =
          tolerance * std::max({unit, std::abs(wanted), calibration.low, calibration.high});
      if (std::abs(found - wanted) <= allowed) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          checkpoint.Path(kProbe), ": row ", i + 1, ": the trainer predicted ", wanted,
          " for this row, this program predicts ", found, "; at most ", allowed,
          " apart is allowed; use the plug-ins, the vocabularies and the program of the training",
          remedy));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string PresentFile(const Checkpoint& checkpoint) {
  const std::string path = checkpoint.Path("manifest.json");
  return IsUri(path) ? "/proc/self/exe" : std::filesystem::absolute(path).string();
}

StatusOr<ClusterConfig> ConfigOfModel(const Checkpoint& checkpoint,
                                      const std::vector<std::string>& overrides) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string yaml, TextOf(checkpoint, "yaml"));
  SIMURGH_ASSIGN_OR_RETURN(const std::string path, TextOf(checkpoint, "yaml.path"));
  SIMURGH_ASSIGN_OR_RETURN(const std::string saved, TextOf(checkpoint, "yaml.overrides"));
  std::vector<std::string> all = absl::StrSplit(saved, '\n', absl::SkipEmpty());
  const std::vector<std::string> local = LocalOverrides(checkpoint);
  all.insert(all.end(), local.begin(), local.end());
  all.insert(all.end(), overrides.begin(), overrides.end());
  StatusOr<ClusterConfig> parsed = ParseClusterConfig(yaml, path, all);
  if (!parsed.ok()) {
    return Annotate(parsed.status(), absl::StrCat("the model's configuration, from ", path));
  }
  ClusterConfig config = *std::move(parsed);
  config.checkpoint = {};
  const std::vector<std::string> unread = {PresentFile(checkpoint)};
  if (config.data.items.files == unread) {
    // Evaluations read the training's files of items, which need not be there otherwise.
    std::vector<std::string> own = absl::StrSplit(saved, '\n', absl::SkipEmpty());
    std::ranges::copy_if(local, std::back_inserter(own), [](const std::string& one) {
      return !one.starts_with("data.items.files=") && !one.starts_with("data.train=");
    });
    const auto trained = ParseClusterConfig(yaml, path, own, InputFiles::kIgnore);
    if (trained.ok()) config.data.items.files = trained->data.items.files;
    if (trained.ok() && config.data.items.exclude_seen) config.data.train = trained->data.train;
  }
  SIMURGH_RETURN_IF_ERROR(
      ApplyStatistics(checkpoint.manifest.statistics, config.data, config.features));
  return config;
}

Status CheckHasMetrics(const ClusterConfig& config) {
  if (!IsInBatch(config.model)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the model is one of two towers: its predictions rank items, and have no metrics for single "
      "rows; use simurgh predict --evaluate");
}

Status CheckPlugins(const ClusterConfig& config, bool allowed) {
  if (allowed) return absl::OkStatus();
  const auto refuse = [](const std::string& what, const PluginConfig& plugin) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": the model runs the program code of ", plugin.path,
                     "; if you trust it, give --allow-plugins, or set serving.allow_plugins: true "
                     "for a server"));
  };
  for (const FeatureConfig& feature : config.features) {
    const PluginConfig& plugin = feature.processing.plugin;
    if (!plugin.path.empty()) return refuse(absl::StrCat("feature '", feature.name, "'"), plugin);
  }
  for (const DerivedConfig& derived : config.data.derived) {
    return refuse(absl::StrCat("derived '", derived.name, "'"), derived.plugin);
  }
  return absl::OkStatus();
}

ModelVersion::Common::Common(ClusterConfig configuration, ModelVersion::Options loading,
                             const Manifest& manifest)
    : config(std::move(configuration)),
      format(FormatOf(config)),
      layout(LayoutOf(config)),
      masks(config.features),
      options(std::move(loading)),
      encodings(EncodingsOf(config.tables, options.row_precision)),
      statistics(manifest.statistics),
      source(SourceOf(manifest)) {}

bool ModelVersion::Common::Fits(const Manifest& manifest) const {
  return source == SourceOf(manifest) && statistics == manifest.statistics;
}

namespace {

RowLoading LoadingOf(const ModelVersion::Options& options,
                     const std::vector<RowEncoding>& encodings, uint64_t max_bytes) {
  return {.share = options.share.value_or(RowShare()),
          .max_bytes = max_bytes,
          .encodings = encodings,
          .is_mapped = options.maps_rows,
          .checks_first = options.checks_mapped_first};
}

}  // namespace

ModelVersion::ModelVersion(const Checkpoint& checkpoint)
    : folder_(checkpoint.folder),
      step_(checkpoint.manifest.step),
      step_time_(StepTimeOf(checkpoint.manifest)),
      checksum_(checkpoint.checksum),
      training_(TrainingOf(checkpoint.manifest.run)),
      parts_(std::make_unique<Parts>()) {}
ModelVersion::~ModelVersion() = default;

const ClusterConfig& ModelVersion::config() const { return common_->config; }
const RowFormat& ModelVersion::format() const { return common_->format; }

Calibration ModelVersion::calibration(size_t label) const {
  return parts_->calibrations.empty() ? Calibration() : parts_->calibrations[label];
}

size_t ModelVersion::vector_width() const {
  return parts_->dense == nullptr ? 0 : parts_->dense->vector_width();
}

std::shared_ptr<const ProgramState> ModelVersion::program_state() const { return parts_->program; }

uint64_t ModelVersion::rows() const {
  uint64_t rows = 0;
  for (const RowLayers& table : parts_->tables) rows += table.rows();
  return rows;
}

uint64_t ModelVersion::bytes(const ModelVersion* besides) const {
  const bool compares = besides != nullptr && besides->common_ == common_;
  uint64_t bytes = parts_->dense == nullptr ? 0 : parts_->dense->bytes();
  for (size_t i = 0; i < parts_->tables.size(); ++i) {
    bytes += parts_->tables[i].bytes(compares ? &besides->parts_->tables[i] : nullptr);
  }
  return bytes;
}

Status ModelVersion::damage() const {
  return parts_->check == nullptr ? absl::OkStatus() : parts_->check->status();
}

StatusOr<std::shared_ptr<const ModelVersion>> ModelVersion::Load(const Checkpoint& checkpoint,
                                                                 const Options& options,
                                                                 Progress progress,
                                                                 const ModelVersion* before) {
  std::shared_ptr<ModelVersion> model(new ModelVersion(checkpoint));
  if (before != nullptr && before->common_->Fits(checkpoint.manifest)) {
    model->common_ = before->common_;
  } else {
    SIMURGH_ASSIGN_OR_RETURN(ClusterConfig config, ConfigOfModel(checkpoint, options.overrides));
    SIMURGH_RETURN_IF_ERROR(CheckPlugins(config, options.allow_plugins || options.share));
    model->common_ = std::make_shared<Common>(std::move(config), options, checkpoint.manifest);
  }
  const ClusterConfig& config = model->config();
  bool predicts = false;
  if (!options.share) {
    SIMURGH_ASSIGN_OR_RETURN(const bool is_hosted, IsHosted(checkpoint, options, config));
    if (is_hosted) {
      SIMURGH_ASSIGN_OR_RETURN(model->parts_->program, LoadProgram(checkpoint, options));
    } else {
      SIMURGH_ASSIGN_OR_RETURN(model->parts_->dense, LoadDense(checkpoint, config));
    }
    predicts = !is_hosted || options.program != nullptr;
    SIMURGH_ASSIGN_OR_RETURN(model->parts_->calibrations, LoadCalibrations(checkpoint, config));
  }
  if (options.remote == nullptr) {
    SIMURGH_ASSIGN_OR_RETURN(
        LoadedRows rows,
        LoadRows(checkpoint, config.tables,
                 LoadingOf(options, model->common_->encodings, options.max_bytes), progress));
    model->parts_->tables = std::move(rows.tables);
    model->parts_->check = std::move(rows.check);
  }
  if (predicts) SIMURGH_RETURN_IF_ERROR(CheckProbe(checkpoint, *model, options));
  return model;
}

StatusOr<std::shared_ptr<const ModelVersion>> ModelVersion::Next(const Checkpoint& delta,
                                                                 uint64_t max_bytes,
                                                                 bool checks_probe) const {
  const std::optional<Manifest::Parent>& parent = delta.manifest.parent;
  if (!parent || parent->step != step_ || parent->checksum != checksum_) {
    return absl::AbortedError(absl::StrCat(delta.folder, ": no delta of ", folder_));
  }
  if (!common_->Fits(delta.manifest)) {
    return absl::AbortedError(absl::StrCat(delta.folder, ": another configuration than ", folder_));
  }
  const ClusterConfig& config = common_->config;
  const Options& options = common_->options;
  std::shared_ptr<ModelVersion> model(new ModelVersion(delta));
  model->common_ = common_;
  const bool is_hosted = config.model.is_hosted();
  if (!options.share) {
    if (is_hosted) {
      SIMURGH_ASSIGN_OR_RETURN(model->parts_->program, LoadProgram(delta, options));
    } else {
      SIMURGH_ASSIGN_OR_RETURN(model->parts_->dense, LoadDense(delta, config));
    }
    SIMURGH_ASSIGN_OR_RETURN(model->parts_->calibrations, LoadCalibrations(delta, config));
  }
  if (options.remote == nullptr) {
    SIMURGH_ASSIGN_OR_RETURN(
        model->parts_->tables,
        LoadDelta(delta, config.tables, LoadingOf(options, common_->encodings, max_bytes),
                  parts_->tables));
    model->parts_->check = parts_->check;
  } else {
    SIMURGH_ASSIGN_OR_RETURN(std::optional<ChangedIds> ids, ReadChangedIds(delta, config.tables));
    if (ids) model->parts_->changes = parts_->changes.With(checksum_, *std::move(ids));
  }
  const bool predicts = !options.share && (!is_hosted || options.program != nullptr);
  if (predicts && checks_probe) {
    SIMURGH_RETURN_IF_ERROR(CheckProbe(delta, *model, options));
  }
  return model;
}

StatusOr<RowAnswer> AnswerRead(const ModelVersion& version, VectorPrecision precision,
                               std::span<const RowRead::Group> groups,
                               std::span<const uint64_t> ids,
                               absl::FunctionRef<RowMemory(size_t bytes)> allocate) {
  SIMURGH_RETURN_IF_ERROR(version.damage());
  const std::vector<RowLayers>& tables = version.parts_->tables;
  RowAnswer answer{.present = std::vector<uint8_t>((ids.size() + 7) / 8)};
  std::vector<const std::byte*> found(ids.size());
  std::vector<uint32_t> scratch;
  size_t bytes = 0;
  const auto for_each_group = [&](const auto& visit) {
    size_t first = 0;
    for (const RowRead::Group& group : groups) {
      visit(group.table, first, group.ids);
      first += group.ids;
    }
  };
  for (const RowRead::Group& group : groups) {
    if (group.table < tables.size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("rows: there is no table ", group.table, ", the model has ", tables.size()));
  }
  const auto encoding_of = [&](uint32_t table) {
    return RowEncoding(version.config().tables[table], precision);
  };
  for_each_group([&](uint32_t table, size_t first, size_t count) {
    const std::span<const std::byte*> rows = std::span(found).subspan(first, count);
    tables[table].Find(ids.subspan(first, count), rows, scratch);
    const size_t row_bytes = encoding_of(table).row_bytes();
    for (size_t i = 0; i < count; ++i) {
      if (rows[i] == nullptr) continue;
      const size_t id = first + i;
      answer.present[id / 8] = static_cast<uint8_t>(answer.present[id / 8] | 1U << (id % 8));
      bytes += row_bytes;
    }
  });
  const RowMemory memory = allocate(bytes);
  std::byte* to = memory.bytes.data();
  for_each_group([&](uint32_t table, size_t first, size_t count) {
    const RowEncoding wanted = encoding_of(table);
    const RowEncoding& own = version.common_->encodings[table];
    for (size_t i = first; i < first + count; ++i) {
      if (found[i] == nullptr) continue;
      wanted.EncodeFrom(own, found[i], to);
      to += wanted.row_bytes();
    }
  });
  answer.rows = memory.bytes;
  answer.owner = memory.owner;
  return answer;
}

}  // namespace simurgh
