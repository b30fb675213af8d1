#include "simurgh/serve/model_version.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "serve/model_parts.h"

#include "simurgh/data/batch_reader.h"
#include "simurgh/model/row_files.h"
#include "simurgh/model/tensor_file.h"
#include "simurgh/table/table.h"
#include "simurgh/train/dense_weights.h"
#include "simurgh/train/model_inputs.h"

namespace simurgh {
namespace {

constexpr char kDense[] = "dense.safetensors";

RowFormat FormatOf(const ClusterConfig& config) {
  RowFormat format{.columns = {}, .labels = LabelColumns(config.data)};
  std::vector<std::string> read;
  for (const FeatureConfig& feature : config.features) {
    const std::vector<std::string> sources = feature.sources();
    read.insert(read.end(), sources.begin(), sources.end());
  }
  for (const DerivedConfig& derived : config.data.derived) {
    read.insert(read.end(), derived.columns.begin(), derived.columns.end());
  }
  for (const ColumnConfig& column : ColumnsOf(config.data)) {
    if (column.kind == ColumnConfig::Kind::kLabel) continue;
    const bool is_dense = column.kind == ColumnConfig::Kind::kDense;
    format.columns.push_back(
        {.name = column.name,
         .is_dense = is_dense,
         .is_list = column.separator != '\0',
         .is_read = is_dense || std::ranges::find(read, column.name) != read.end()});
  }
  return format;
}

Status CheckPlugins(const ClusterConfig& config, bool allowed) {
  if (allowed) return absl::OkStatus();
  const auto refuse = [](const std::string& what, const PluginConfig& plugin) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": the model runs the program code of ", plugin.path,
                     "; set serving.allow_plugins: true if you trust it"));
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

double StepTimeOf(const Manifest& manifest) {
  const auto found = manifest.extra.find("step_time");
  double seconds = 0;
  if (found != manifest.extra.end() && absl::SimpleAtod(found->second, &seconds)) return seconds;
  return static_cast<double>(manifest.step_time);
}

// Errors: INVALID_ARGUMENT unless the rows' weights are those of the table.
Status CheckLayout(const RowFile& file, const TableConfig& table) {
  const std::vector<TensorSpec> wanted = Table::FileTensors(table, 0);
  const TensorMetadata metadata = Table::FileMetadata(table);
  const auto describe = [](const std::vector<TensorSpec>& tensors, const TensorMetadata& texts,
                           const char* name) -> std::string {
    const auto found = std::ranges::find(tensors, name, &TensorSpec::name);
    if (found == tensors.end()) return "missing";
    const auto format = texts.find(absl::StrCat(name, ".format"));
    return absl::StrCat(format == texts.end() ? DTypeName(found->dtype) : format->second, " [N",
                        found->shape.size() < 2 ? "" : absl::StrCat(", ", found->shape[1]), "]");
  };
  for (const char* name : {"id", "weights"}) {
    const std::string saved = describe(file.reader.tensors(), file.metadata, name);
    const std::string configured = describe(wanted, metadata, name);
    if (saved == configured) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        file.path, ": tensor ", name, " is ", saved, ", the model's configuration of table '",
        table.name, "' has ", configured, "; use an undamaged copy of the model"));
  }
  return absl::OkStatus();
}

StatusOr<uint32_t> TableIndex(const std::string& name, const ClusterConfig& config) {
  const auto table = std::ranges::find(config.tables, name, &TableConfig::name);
  if (table != config.tables.end()) return static_cast<uint32_t>(table - config.tables.begin());
  return absl::InvalidArgumentError(absl::StrCat("the model has rows of a table '", name,
                                                 "', its configuration has none of this name"));
}

uint64_t RowsOf(std::span<const SavedRows> saved) {
  uint64_t rows = 0;
  for (const SavedRows& one : saved) rows += one.rows;
  return rows;
}

Status NoRoom(const Checkpoint& checkpoint, uint64_t rows, uint64_t bytes, uint64_t max_bytes) {
  return absl::ResourceExhaustedError(absl::StrCat(checkpoint.folder, ": its ", rows, " rows need ",
                                                   bytes, " bytes, ", max_bytes,
                                                   " are left of the memory budget"));
}

// The rows of one table, of all servers. on_rows: called with the rows of each piece.
StatusOr<RowLayers> LoadTable(const Checkpoint& checkpoint, const TableConfig& config,
                              std::span<SavedRows> saved,
                              absl::FunctionRef<Status(uint64_t rows)> on_rows) {
  const std::vector<std::string> tensors = {"id", "weights"};
  const uint64_t rows = RowsOf(saved);
  SIMURGH_ASSIGN_OR_RETURN(std::shared_ptr<RowTable> table, RowTable::Create(config, rows, 0));
  uint64_t next = 0;
  for (SavedRows& one : saved) {
    for (const RowFile& file : one.files) SIMURGH_RETURN_IF_ERROR(CheckLayout(file, config));
    SIMURGH_RETURN_IF_ERROR(one.ForEachPiece(tensors, [&](SavedRows::Parts parts) -> Status {
      const uint64_t count = parts[0].size() / sizeof(uint64_t);
      if (next + count > rows) {
        return absl::DataLossError(
            absl::StrCat(one.name, ": more rows than its files announce; use another checkpoint"));
      }
      std::ranges::copy(parts[0], std::as_writable_bytes(table->ids().subspan(next)).begin());
      std::ranges::copy(parts[1], table->weights().subspan(next * table->row_bytes()).begin());
      next += count;
      return on_rows(count);
    }));
  }
  if (next != rows) {
    return absl::DataLossError(absl::StrCat(checkpoint.folder, ": table '", config.name, "' has ",
                                            next, " rows instead of ", rows,
                                            "; use another checkpoint"));
  }
  SIMURGH_RETURN_IF_ERROR(
      Annotate(table->Index(), absl::StrCat(checkpoint.folder, ": table '", config.name, "'")));
  return RowLayers({std::move(table)}, rows);
}

StatusOr<std::vector<RowLayers>> LoadRows(const Checkpoint& checkpoint, const ClusterConfig& config,
                                          uint64_t max_bytes, ModelVersion::Progress progress) {
  SIMURGH_ASSIGN_OR_RETURN(std::vector<SavedRows> all, OpenRows(checkpoint));
  std::vector<std::vector<SavedRows>> tables(config.tables.size());
  for (SavedRows& rows : all) {
    SIMURGH_ASSIGN_OR_RETURN(const uint32_t index, TableIndex(rows.table, config));
    tables[index].push_back(std::move(rows));
  }
  uint64_t all_rows = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    all_rows += RowsOf(tables[i]);
    bytes += RowTable::BytesOf(config.tables[i], RowsOf(tables[i]));
  }
  if (bytes > max_bytes) return NoRoom(checkpoint, all_rows, bytes, max_bytes);
  std::vector<RowLayers> layers;
  uint64_t done = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    SIMURGH_ASSIGN_OR_RETURN(layers.emplace_back(),
                             LoadTable(checkpoint, config.tables[i], tables[i], [&](uint64_t rows) {
                               return progress(done += rows, all_rows);
                             }));
  }
  return layers;
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

StatusOr<std::vector<uint64_t>> ReadIds(TensorFileReader& file) {
  std::vector<uint64_t> ids(file.tensors().empty() ? 0 : file.tensors().front().rows());
  SIMURGH_RETURN_IF_ERROR(file.Read("id", 0, ids.size(), std::as_writable_bytes(std::span(ids))));
  return ids;
}

// The rows that a delta has of a table, over all servers.
struct DeltaFiles {
  bool is_whole = false;  // A file has all rows of its server.
  std::vector<TensorFileReader> rows;
  std::vector<TensorFileReader> removed;
  uint64_t rows_after = 0;
};

uint64_t RowsOf(const std::vector<TensorFileReader>& files) {
  uint64_t rows = 0;
  for (const TensorFileReader& file : files) {
    rows += file.tensors().empty() ? 0 : file.tensors().front().rows();
  }
  return rows;
}

StatusOr<std::vector<DeltaFiles>> OpenDelta(const Checkpoint& delta, const ClusterConfig& config) {
  std::vector<DeltaFiles> tables(config.tables.size());
  for (const ModelFile& file : delta.manifest.files) {
    const std::string name = TableOf(file);
    if (name.empty()) continue;
    SIMURGH_ASSIGN_OR_RETURN(const uint32_t index, TableIndex(name, config));
    DeltaFiles& files = tables[index];
    SIMURGH_ASSIGN_OR_RETURN(TensorFileReader reader, delta.OpenTensors(file.path));
    const auto after = reader.metadata().find(kRowsAfterDelta);
    uint64_t rows_after = 0;
    if (after == reader.metadata().end()) {
      files.is_whole = true;
    } else if (!absl::SimpleAtoi(after->second, &rows_after)) {
      return absl::DataLossError(
          absl::StrCat(delta.Path(file.path), ": metadata ", kRowsAfterDelta, ": not a number"));
    } else {
      SIMURGH_ASSIGN_OR_RETURN(
          TensorFileReader removed,
          delta.OpenTensors(absl::StrCat("removed", file.path.substr(file.path.find('/')))));
      files.removed.push_back(std::move(removed));
    }
    files.rows_after += rows_after;
    files.rows.push_back(std::move(reader));
  }
  return tables;
}

StatusOr<RowLayers> LoadDelta(DeltaFiles& files, const TableConfig& config,
                              const RowLayers& before) {
  const uint64_t rows = RowsOf(files.rows);
  std::vector<uint64_t> removed;
  for (TensorFileReader& file : files.removed) {
    SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids, ReadIds(file));
    removed.insert(removed.end(), ids.begin(), ids.end());
  }
  std::vector<uint64_t> changed;
  for (TensorFileReader& file : files.rows) {
    SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> ids, ReadIds(file));
    changed.insert(changed.end(), ids.begin(), ids.end());
  }
  // An id that went and came back has a row.
  const absl::flat_hash_set<uint64_t> present(changed.begin(), changed.end());
  std::erase_if(removed, [&present](uint64_t id) { return present.contains(id); });
  SIMURGH_ASSIGN_OR_RETURN(std::shared_ptr<RowTable> table,
                           RowTable::Create(config, rows, removed.size()));
  std::ranges::copy(changed, table->ids().begin());
  std::ranges::copy(removed, table->ids().begin() + static_cast<std::ptrdiff_t>(rows));
  uint64_t next = 0;
  for (TensorFileReader& file : files.rows) {
    const uint64_t count = file.tensors().empty() ? 0 : file.tensors().front().rows();
    SIMURGH_RETURN_IF_ERROR(
        file.Read("weights", 0, count,
                  table->weights().subspan(next * table->row_bytes(), count * table->row_bytes())));
    next += count;
  }
  SIMURGH_RETURN_IF_ERROR(table->Index());
  SIMURGH_ASSIGN_OR_RETURN(RowLayers layers, before.With(config, std::move(table)));
  if (layers.rows() == files.rows_after) return layers;
  return absl::DataLossError(absl::StrCat("table '", config.name, "': ", layers.rows(),
                                          " rows after the delta instead of ", files.rows_after,
                                          "; use a full checkpoint"));
}

// What a program makes the configuration from, in the order of a manifest.
std::vector<std::string> SourceOf(const Manifest& manifest) {
  std::vector<std::string> source;
  for (const char* name : {"yaml", "yaml.path", "yaml.overrides"}) {
    const auto found = manifest.extra.find(name);
    source.push_back(found == manifest.extra.end() ? "" : found->second);
  }
  return source;
}

}  // namespace

ModelVersion::Common::Common(ClusterConfig configuration, ModelVersion::Options loading,
                             const Manifest& manifest)
    : config(std::move(configuration)),
      format(FormatOf(config)),
      layout(LayoutOf(config)),
      masks(config.features),
      options(std::move(loading)),
      statistics(manifest.statistics),
      source(SourceOf(manifest)) {}

bool ModelVersion::Common::Fits(const Manifest& manifest) const {
  return source == SourceOf(manifest) && statistics == manifest.statistics;
}

ModelVersion::ModelVersion(const Checkpoint& checkpoint)
    : folder_(checkpoint.folder),
      step_(checkpoint.manifest.step),
      step_time_(StepTimeOf(checkpoint.manifest)),
      checksum_(checkpoint.checksum),
      parts_(std::make_unique<Parts>()) {}
ModelVersion::~ModelVersion() = default;

const ClusterConfig& ModelVersion::config() const { return common_->config; }
const RowFormat& ModelVersion::format() const { return common_->format; }

uint64_t ModelVersion::rows() const {
  uint64_t rows = 0;
  for (const RowLayers& table : parts_->tables) rows += table.rows();
  return rows;
}

uint64_t ModelVersion::bytes(const ModelVersion* besides) const {
  const bool compares = besides != nullptr && besides->common_ == common_;
  uint64_t bytes = parts_->dense->bytes();
  for (size_t i = 0; i < parts_->tables.size(); ++i) {
    bytes += parts_->tables[i].bytes(compares ? &besides->parts_->tables[i] : nullptr);
  }
  return bytes;
}

StatusOr<std::shared_ptr<const ModelVersion>> ModelVersion::Load(const Checkpoint& checkpoint,
                                                                 const Options& options,
                                                                 Progress progress) {
  SIMURGH_ASSIGN_OR_RETURN(ClusterConfig config, ConfigOfModel(checkpoint, options.overrides));
  SIMURGH_RETURN_IF_ERROR(CheckPlugins(config, options.allow_plugins));
  std::shared_ptr<ModelVersion> model(new ModelVersion(checkpoint));
  model->common_ = std::make_shared<Common>(std::move(config), options, checkpoint.manifest);
  SIMURGH_ASSIGN_OR_RETURN(model->parts_->dense, LoadDense(checkpoint, model->config()));
  SIMURGH_ASSIGN_OR_RETURN(model->parts_->tables,
                           LoadRows(checkpoint, model->config(), options.max_bytes, progress));
  SIMURGH_RETURN_IF_ERROR(CheckProbe(checkpoint, *model));
  return model;
}

StatusOr<std::shared_ptr<const ModelVersion>> ModelVersion::Next(const Checkpoint& delta,
                                                                 uint64_t max_bytes) const {
  const std::optional<Manifest::Parent>& parent = delta.manifest.parent;
  if (!parent || parent->step != step_ || parent->checksum != checksum_) {
    return absl::AbortedError(absl::StrCat(delta.folder, ": no delta of ", folder_));
  }
  if (!common_->Fits(delta.manifest)) {
    return absl::AbortedError(absl::StrCat(delta.folder, ": another configuration than ", folder_));
  }
  const ClusterConfig& config = common_->config;
  std::shared_ptr<ModelVersion> model(new ModelVersion(delta));
  model->common_ = common_;
  SIMURGH_ASSIGN_OR_RETURN(model->parts_->dense, LoadDense(delta, config));
  SIMURGH_ASSIGN_OR_RETURN(std::vector<DeltaFiles> tables, OpenDelta(delta, config));
  uint64_t rows = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    const uint64_t entries = RowsOf(tables[i].rows) + RowsOf(tables[i].removed);
    rows += entries;
    bytes += RowTable::BytesOf(config.tables[i], entries);
  }
  if (bytes > max_bytes) return NoRoom(delta, rows, bytes, max_bytes);
  for (size_t i = 0; i < tables.size(); ++i) {
    StatusOr<RowLayers> layers;
    if (tables[i].is_whole) {
      SIMURGH_ASSIGN_OR_RETURN(std::vector<SavedRows> saved,
                               OpenRows(delta, config.tables[i].name));
      layers = LoadTable(delta, config.tables[i], saved,
                         [](uint64_t /*rows*/) { return absl::OkStatus(); });
    } else {
      layers = LoadDelta(tables[i], config.tables[i], parts_->tables[i]);
    }
    if (!layers.ok()) return Annotate(layers.status(), delta.folder);
    model->parts_->tables.push_back(*std::move(layers));
  }
  SIMURGH_RETURN_IF_ERROR(CheckProbe(delta, *model));
  return model;
}

}  // namespace simurgh
