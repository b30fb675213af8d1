// The part of the C interface that uses trained models.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <unistd.h>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "retrieval/item_catalog.h"
#include "retrieval/item_vectors.h"

#include "base/mutex.h"
#include "config/cluster_config.h"
#include "config/serving_config.h"
#include "model/model_directory.h"
#include "predict/model_version.h"
#include "predict/predictor.h"
#include "predict/served_versions.h"
#include "services/library/evaluation.h"
#include "services/library/inputs.h"
#include "services/library/interface.h"
#include "services/library/memory.h"
#include "services/library/table_reader.h"
#include "services/library/versions.h"
#include "services/runtime/signals_blocked.h"
#include "services/serving/item_recommender.h"
#include "services/serving/row_servers.h"
#include "simurgh/simurgh.h"
#include "telemetry/logging.h"
#include "telemetry/metrics.h"

namespace simurgh {
namespace {

using SharedVersion = std::shared_ptr<const ModelVersion>;
using SharedItems = std::shared_ptr<const ItemCatalog>;

// Leaves new elements as they are in memory, since all are set.
template <typename T>
struct Unset : std::allocator<T> {
  template <typename Other>
  struct rebind {
    using other = Unset<Other>;
  };
  template <typename Element>
  void construct(Element* /*element*/) {}
  template <typename Element, typename... Values>
  void construct(Element* element, Values&&... values) {
    std::construct_at(element, std::forward<Values>(values)...);
  }
};
using Floats = std::vector<float, Unset<float>>;

// The arrays of a simurgh_result.
struct ResultMemory {
  Floats outputs;
  Floats dense;
  Floats embeddings;
};

// The arrays of a simurgh_recommendations.
struct RecommendationMemory {
  SharedItems items;  // Owner of the ids.
  std::vector<const char*> ids;
  std::vector<float> scores;
};

std::vector<std::string> TextsOf(const char* const* texts, uint64_t count) {
  return {texts, texts + count};
}

// Errors: INVALID_ARGUMENT for a value out of range.
StatusOr<ItemQuery> QueryOf(const simurgh_recommend_options& options) {
  if (options.k == 0 || options.k > ItemQuery::kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("k: ", options.k, " is out of range; use 1 to ", ItemQuery::kMost));
  }
  ItemQuery query{.k = options.k, .exclude = TextsOf(options.exclude, options.exclude_count)};
  for (uint64_t i = 0; i < options.filter_count; ++i) {
    const std::string column = options.filter_columns[i];
    auto filter = std::ranges::find(query.filters, column, &CellFilter::column);
    if (filter == query.filters.end()) {
      filter = query.filters.insert(filter, {.column = column, .values = {}});
    }
    if (options.filter_values[i] != nullptr) filter->values.emplace_back(options.filter_values[i]);
  }
  return query;
}

// Moves the rows of good inputs to their places among all inputs, and fills the others with NaN.
void Spread(const std::vector<bool>& is_good, size_t width, Floats& numbers) {
  size_t next = numbers.size();
  if (next == is_good.size() * width) return;
  numbers.resize(is_good.size() * width);
  for (size_t row = is_good.size(); row-- > 0;) {
    for (size_t i = width; i-- > 0;) {
      numbers[row * width + i] =
          is_good[row] ? numbers[--next] : std::numeric_limits<float>::quiet_NaN();
    }
  }
}

// The error of a read of rows. Servers keep the versions in use, unless they start again.
Status ReadError(const Status& status) {
  if (!absl::IsNotFound(status)) return status;
  return absl::UnavailableError(absl::StrCat(std::string(status.message()), "; call again"));
}

// Returns the settings that a model shares with `simurgh serve`.
StatusOr<ServingConfig> ServingOf(const simurgh_model_options& options) {
  std::vector<std::string> settings(options.overrides, options.overrides + options.override_count);
  const std::string rows = options.rows == nullptr ? "memory" : options.rows;
  if (rows == "memory" || rows == "mapped") {
    settings.push_back(absl::StrCat("serving.rows=", rows));
  } else if (rows.find(':') == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows: '", rows,
                     "' is neither memory nor mapped, nor the addresses of "
                     "row-servers, such as 10.0.0.1:9100,10.0.0.2:9100"));
  } else {
    settings.emplace_back("serving.rows=remote");
    settings.push_back(absl::StrCat("serving.servers=", YamlText(rows)));
  }
  if (options.row_precision != nullptr) {
    settings.push_back(absl::StrCat("serving.row_precision=", options.row_precision));
  }
  return LoadServingConfig("", settings);
}

}  // namespace
}  // namespace simurgh

struct simurgh_model {
  simurgh::Status Open(const simurgh_model_options& options);
  // Waits for the first version whose rows servers have.
  simurgh::StatusOr<simurgh::SharedVersion> AwaitVersion(std::chrono::milliseconds timeout) const;
  simurgh::Status CheckProcess() const { return simurgh::library::CheckProcess("model", process); }
  // Errors: FAILED_PRECONDITION for a version whose inputs differ from the first one's; UNAVAILABLE
  // if the rows of all versions are damaged.
  simurgh::StatusOr<simurgh::SharedVersion> Current();
  // Returns a predictor that fits the version. The caller gives it back.
  simurgh::StatusOr<simurgh::Predictor> Take(const simurgh::ModelVersion& version);
  void GiveBack(simurgh::Predictor predictor);
  simurgh::Status Read(ArrowArrayStream* table, bool predicts, simurgh_result* result);
  simurgh::Status ReadBatches(const simurgh::ModelVersion& version, simurgh::Predictor& predictor,
                              simurgh::TableReader& tables, bool predicts, simurgh_result* result);
  // Returns a reader of the version's tables. The caller gives it back.
  std::unique_ptr<simurgh::TableReader> TakeReader(const simurgh::SharedVersion& version);
  void GiveBack(std::unique_ptr<simurgh::TableReader> reader);
  simurgh::Status Rows(const char* feature, std::span<const uint64_t> ids, float* weights,
                       uint8_t* found);

  simurgh::Status Versions(simurgh_checkpoints* list);
  simurgh::Status Evaluate(ArrowArrayStream* table, const float* outputs, uint64_t count,
                           simurgh_evaluation* evaluation);
  simurgh::Status Vectors(ArrowArrayStream* table, const char* tower, simurgh_vectors* vectors);
  simurgh::Status Recommend(ArrowArrayStream* table, const simurgh_recommend_options& options,
                            simurgh_recommendations* recommendations);
  // Returns the items of files with their vectors.
  simurgh::StatusOr<simurgh::SharedItems> ItemsOf(const simurgh::ModelVersion& version,
                                                  const std::vector<std::string>& files,
                                                  const std::string& id);

  const pid_t process = getpid();
  std::string path;
  simurgh::MetricRegistry metrics;
  std::unique_ptr<simurgh::ServedVersions> versions;  // Null: `first` is used.
  std::optional<simurgh::ClusterConfig> described;    // Its names are in the inputs.
  std::optional<simurgh::InputsView> inputs;
  simurgh::Mutex mutex;
  simurgh::SharedVersion first ABSL_GUARDED_BY(mutex);  // Null once `versions` has loaded one.
  std::optional<uint64_t> fits ABSL_GUARDED_BY(mutex);  // Checksum of a version with these inputs.
  std::vector<simurgh::Predictor> free ABSL_GUARDED_BY(mutex);
  std::vector<std::unique_ptr<simurgh::TableReader>> free_readers ABSL_GUARDED_BY(mutex);
  simurgh::ItemIndex::Options index_options;
  // Held while items are read, so that other calls wait for them.
  simurgh::Mutex items_mutex;
  simurgh::SharedItems items ABSL_GUARDED_BY(items_mutex);
  simurgh::CatalogSource items_source ABSL_GUARDED_BY(items_mutex);
  std::string items_id ABSL_GUARDED_BY(items_mutex);
};

using simurgh::Status;
using simurgh::StatusOr;

Status simurgh_model::Open(const simurgh_model_options& options) {
  SIMURGH_RETURN_IF_ERROR(
      simurgh::library::CheckSize(options.size, sizeof(options), "simurgh_model_options"));
  if (options.path == nullptr) return absl::InvalidArgumentError("path: missing");
  path = options.path;
  SIMURGH_RETURN_IF_ERROR(
      simurgh::InitLogging("model/0", options.log_level == nullptr ? "warn" : options.log_level));
  SIMURGH_ASSIGN_OR_RETURN(const simurgh::ServingConfig serving, simurgh::ServingOf(options));
  const simurgh::SignalsBlocked blocked;
  simurgh::ModelVersion::Options loading{
      .overrides = serving.model_overrides,
      .allow_plugins = options.allows_plugins != 0,
      .hot_row_bytes = serving.hot_row_bytes / simurgh::ThreadsOf(serving),
      .row_precision = serving.row_precision,
      .maps_rows = serving.rows == simurgh::ServingConfig::Rows::kMapped,
      .allow_hosted = true};
  std::string version = options.version == nullptr ? "best" : options.version;
  // Errors of a folder are told at once, also where versions are followed.
  SIMURGH_ASSIGN_OR_RETURN(const simurgh::ModelDirectory::Newest found,
                           simurgh::FindVersion(options.path, version));
  const bool is_remote = serving.rows == simurgh::ServingConfig::Rows::kRemote;
  if (is_remote) {
    SIMURGH_ASSIGN_OR_RETURN(loading.remote, simurgh::RowServers::Create(serving, metrics));
    // Servers drop versions that no process asks for.
    if (options.follows == 0) version = absl::StrCat(found.checkpoint.manifest.step);
  } else {
    const auto no_progress = [](uint64_t /*rows*/, uint64_t /*all_rows*/) {
      return absl::OkStatus();
    };
    const simurgh::MutexLock lock(mutex);
    SIMURGH_ASSIGN_OR_RETURN(first,
                             simurgh::ModelVersion::Load(found.checkpoint, loading, no_progress));
    described = first->config();
  }
  if (options.follows != 0 || is_remote) {
    versions = std::make_unique<simurgh::ServedVersions>(
        simurgh::ServedVersions::Options{
            .model = options.path, .version = version, .loading = std::move(loading)},
        metrics);
  }
  if (is_remote) {
    SIMURGH_ASSIGN_OR_RETURN(const simurgh::SharedVersion loaded,
                             AwaitVersion(serving.request_timeout));
    described = loaded->config();
  }
  inputs.emplace(*described, /*rank=*/0, /*has_masks=*/true);
  index_options = simurgh::IndexOptionsOf(serving);
  return absl::OkStatus();
}

StatusOr<simurgh::SharedVersion> simurgh_model::AwaitVersion(
    std::chrono::milliseconds timeout) const {
  constexpr std::chrono::milliseconds kPoll{5};
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    if (simurgh::SharedVersion version = versions->Current(); version != nullptr) return version;
    const std::vector<simurgh::ServedVersions::Refused> refused = versions->RefusedVersions();
    if (!refused.empty()) return absl::FailedPreconditionError(refused.back().reason);
    if (std::chrono::steady_clock::now() > deadline) {
      return absl::UnavailableError(
          absl::StrCat(path, ": no version after serving.request_timeout: ", versions->Problem()));
    }
    std::this_thread::sleep_for(kPoll);
  }
}

StatusOr<simurgh::SharedVersion> simurgh_model::Current() {
  simurgh::SharedVersion current;
  {
    const simurgh::MutexLock lock(mutex);
    if (versions != nullptr) current = versions->Current();
    if (current == nullptr) current = first;
    if (current == nullptr) return absl::UnavailableError(versions->Problem());
    if (current != first) first.reset();  // Its memory is that of a whole model.
  }
  {
    const simurgh::MutexLock lock(mutex);
    if (fits == current->checksum()) return current;
  }
  if (!inputs->Fits(simurgh::InputsView(current->config(), /*rank=*/0, /*has_masks=*/true))) {
    return absl::FailedPreconditionError(
        absl::StrCat(current->folder(),
                     ": this version has other features, dense columns or labels than the one "
                     "that was opened; open the model again"));
  }
  const simurgh::MutexLock lock(mutex);
  fits = current->checksum();
  return current;
}

StatusOr<simurgh::Predictor> simurgh_model::Take(const simurgh::ModelVersion& version) {
  {
    const simurgh::MutexLock lock(mutex);
    while (!free.empty()) {
      simurgh::Predictor predictor = std::move(free.back());
      free.pop_back();
      if (predictor.Fits(version)) return predictor;
    }
  }
  return simurgh::Predictor::Create(version);
}

void simurgh_model::GiveBack(simurgh::Predictor predictor) {
  const simurgh::MutexLock lock(mutex);
  free.push_back(std::move(predictor));
}

std::unique_ptr<simurgh::TableReader> simurgh_model::TakeReader(
    const simurgh::SharedVersion& version) {
  {
    const simurgh::MutexLock lock(mutex);
    while (!free_readers.empty()) {
      std::unique_ptr<simurgh::TableReader> reader = std::move(free_readers.back());
      free_readers.pop_back();
      if (reader->Fits(version)) return reader;
    }
  }
  return std::make_unique<simurgh::TableReader>(version);
}

void simurgh_model::GiveBack(std::unique_ptr<simurgh::TableReader> reader) {
  const simurgh::MutexLock lock(mutex);
  free_readers.push_back(std::move(reader));
}

Status simurgh_model::Read(ArrowArrayStream* table, bool predicts, simurgh_result* result) {
  SIMURGH_RETURN_IF_ERROR(
      simurgh::library::CheckSize(result->size, sizeof(*result), "simurgh_result"));
  SIMURGH_ASSIGN_OR_RETURN(const simurgh::SharedVersion version, Current());
  SIMURGH_ASSIGN_OR_RETURN(simurgh::Predictor predictor, Take(*version));
  std::unique_ptr<simurgh::TableReader> tables = TakeReader(version);
  Status status = tables->Begin(table);
  if (status.ok()) status = ReadBatches(*version, predictor, *tables, predicts, result);
  if (!status.ok()) return simurgh::ReadError(status);
  GiveBack(std::move(predictor));
  GiveBack(std::move(tables));
  return absl::OkStatus();
}

Status simurgh_model::ReadBatches(const simurgh::ModelVersion& version,
                                  simurgh::Predictor& predictor, simurgh::TableReader& tables,
                                  bool predicts, simurgh_result* result) {
  auto memory = std::make_shared<simurgh::ResultMemory>();
  std::vector<float> probabilities;
  while (true) {
    SIMURGH_ASSIGN_OR_RETURN(std::optional<simurgh::Batch> batch, tables.Next());
    if (!batch) break;
    if (predicts) {
      SIMURGH_RETURN_IF_ERROR(predictor.Predict(version, *batch, probabilities));
      memory->outputs.insert(memory->outputs.end(), probabilities.begin(), probabilities.end());
      continue;
    }
    const size_t width = inputs->get().embedding_width;
    const size_t before = memory->embeddings.size();
    memory->embeddings.resize(before + batch->size() * width);
    SIMURGH_RETURN_IF_ERROR(predictor.SetEmbeddings(
        version, *batch,
        simurgh::MatrixView<float>(memory->embeddings.data() + before, batch->size(), width)));
    memory->dense.insert(memory->dense.end(), batch->dense.values.begin(),
                         batch->dense.values.end());
  }
  const simurgh_inputs& known = inputs->get();
  const std::vector<bool>& is_good = tables.is_good();
  *result = {.size = sizeof(*result), .step = version.step(), .rows = is_good.size()};
  result->bad_rows = tables.bad_rows();
  if (predicts) {
    simurgh::Spread(is_good, known.label_count, memory->outputs);
    result->outputs = memory->outputs.data();
  } else {
    simurgh::Spread(is_good, known.embedding_width, memory->embeddings);
    simurgh::Spread(is_good, known.dense_width, memory->dense);
    result->embeddings = memory->embeddings.data();
    result->dense = memory->dense.data();
  }
  result->memory = new simurgh_memory{std::move(memory)};
  return absl::OkStatus();
}

Status simurgh_model::Rows(const char* feature, std::span<const uint64_t> ids, float* weights,
                           uint8_t* found) {
  SIMURGH_ASSIGN_OR_RETURN(const simurgh::SharedVersion version, Current());
  const simurgh::ClusterConfig& config = version->config();
  std::string names;
  for (const simurgh::FeatureConfig& one : config.features) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", one.name);
    if (one.name != feature) continue;
    const size_t dim = config.tables[one.table_index].dim;
    SIMURGH_ASSIGN_OR_RETURN(simurgh::Predictor predictor, Take(*version));
    const Status status = predictor.Rows(*version, one.table_index, ids,
                                         {weights, ids.size() * dim}, {found, ids.size()});
    if (status.ok()) GiveBack(std::move(predictor));
    return simurgh::ReadError(status);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("feature '", feature, "' is not in the model; its features: ", names));
}

Status simurgh_model::Versions(simurgh_checkpoints* list) {
  SIMURGH_RETURN_IF_ERROR(
      simurgh::library::CheckSize(list->size, sizeof(*list), "simurgh_checkpoints"));
  SIMURGH_ASSIGN_OR_RETURN(const simurgh::SharedVersion version, Current());
  std::vector<simurgh::ServedVersions::Refused> refused;
  if (versions != nullptr) refused = versions->RefusedVersions();
  SIMURGH_ASSIGN_OR_RETURN(simurgh::VersionsView read,
                           simurgh::VersionsView::Read(path, version->step(), refused));
  const auto view = std::make_shared<const simurgh::VersionsView>(std::move(read));
  *list = {.size = sizeof(*list), .checkpoints = view->get().data(), .count = view->get().size()};
  list->memory = new simurgh_memory{view};
  return absl::OkStatus();
}

Status simurgh_model::Evaluate(ArrowArrayStream* table, const float* outputs, uint64_t count,
                               simurgh_evaluation* evaluation) {
  SIMURGH_RETURN_IF_ERROR(
      simurgh::library::CheckSize(evaluation->size, sizeof(*evaluation), "simurgh_evaluation"));
  SIMURGH_ASSIGN_OR_RETURN(const simurgh::SharedVersion version, Current());
  SIMURGH_ASSIGN_OR_RETURN(simurgh::Predictor predictor, Take(*version));
  std::optional<std::span<const float>> given;
  if (outputs != nullptr) given.emplace(outputs, count);
  StatusOr<simurgh::TableEvaluation> evaluated =
      simurgh::EvaluateTable(*version, predictor, table, given);
  if (!evaluated.ok()) return simurgh::ReadError(evaluated.status());
  simurgh::TableEvaluation result = *std::move(evaluated);
  GiveBack(std::move(predictor));
  const auto kept = std::make_shared<const simurgh::TableEvaluation>(std::move(result));
  *evaluation = {.size = sizeof(*evaluation),
                 .text = kept->text.c_str(),
                 .rows = kept->rows,
                 .bad_rows = kept->bad_rows};
  evaluation->memory = new simurgh_memory{kept};
  return absl::OkStatus();
}

StatusOr<simurgh::SharedItems> simurgh_model::ItemsOf(const simurgh::ModelVersion& version,
                                                      const std::vector<std::string>& files,
                                                      const std::string& id) {
  simurgh::CatalogSource source = simurgh::CatalogSource::Of(version, files);
  const simurgh::MutexLock lock(items_mutex);
  if (items != nullptr && items_source == source && items_id == id) return items;
  items = nullptr;
  SIMURGH_ASSIGN_OR_RETURN(simurgh::ItemCatalog loaded,
                           simurgh::ItemCatalog::Load(version, files, id, index_options));
  items = std::make_shared<const simurgh::ItemCatalog>(std::move(loaded));
  items_source = std::move(source);
  items_id = id;
  return items;
}

Status simurgh_model::Recommend(ArrowArrayStream* table, const simurgh_recommend_options& options,
                                simurgh_recommendations* recommendations) {
  SIMURGH_RETURN_IF_ERROR(
      simurgh::library::CheckSize(options.size, sizeof(options), "simurgh_recommend_options"));
  SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckSize(
      recommendations->size, sizeof(*recommendations), "simurgh_recommendations"));
  for (const auto& [array, count, name] :
       {std::tuple(options.items, options.item_count, "items"),
        {options.exclude, options.exclude_count, "exclude"},
        {options.filter_columns, options.filter_count, "filter_columns"},
        {options.filter_values, options.filter_count, "filter_values"}}) {
    if (count > 0) SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckPointer(array, name));
  }
  SIMURGH_ASSIGN_OR_RETURN(const simurgh::ItemQuery query, simurgh::QueryOf(options));
  SIMURGH_ASSIGN_OR_RETURN(const simurgh::SharedVersion version, Current());
  SIMURGH_RETURN_IF_ERROR(simurgh::VectorWidth(version->config()).status());
  const std::vector<std::string> given = simurgh::TextsOf(options.items, options.item_count);
  const std::vector<std::string>& files = simurgh::ItemCatalog::FilesOf(*version, given);
  if (files.empty()) {
    return absl::InvalidArgumentError(
        "items: missing, and the model has no data.items; give files with one row an item");
  }
  auto memory = std::make_shared<simurgh::RecommendationMemory>();
  SIMURGH_ASSIGN_OR_RETURN(
      memory->items, ItemsOf(*version, files, options.item_id == nullptr ? "" : options.item_id));
  SIMURGH_ASSIGN_OR_RETURN(simurgh::Predictor predictor, Take(*version));
  StatusOr<simurgh::TableVectors> users =
      simurgh::VectorsOfTable(*version, predictor, table, simurgh::TowerSide::kUser);
  if (!users.ok()) return simurgh::ReadError(users.status());
  GiveBack(std::move(predictor));
  const auto good = static_cast<size_t>(std::ranges::count(users->is_good, true));
  SIMURGH_ASSIGN_OR_RETURN(
      const std::vector<std::vector<simurgh::FoundItem>> found,
      memory->items->Search({users->vectors.data(), good, users->width}, query));
  const size_t rows = users->is_good.size();
  memory->ids.resize(rows * query.k, nullptr);
  memory->scores.resize(rows * query.k, std::numeric_limits<float>::quiet_NaN());
  size_t next = 0;
  for (size_t row = 0; row < rows; ++row) {
    if (!users->is_good[row]) continue;
    size_t place = row * query.k;
    for (const simurgh::FoundItem& item : found[next++]) {
      memory->ids[place] = memory->items->ids().texts()[item.position].c_str();
      memory->scores[place++] = item.score;
    }
  }
  *recommendations = {.size = sizeof(*recommendations),
                      .step = version->step(),
                      .rows = rows,
                      .k = query.k,
                      .ids = memory->ids.data(),
                      .scores = memory->scores.data(),
                      .bad_rows = rows - good};
  recommendations->memory = new simurgh_memory{std::move(memory)};
  return absl::OkStatus();
}

Status simurgh_model::Vectors(ArrowArrayStream* table, const char* tower,
                              simurgh_vectors* vectors) {
  SIMURGH_RETURN_IF_ERROR(
      simurgh::library::CheckSize(vectors->size, sizeof(*vectors), "simurgh_vectors"));
  const std::string_view name = tower;
  if (name != "user" && name != "item") {
    return absl::InvalidArgumentError(
        absl::StrCat("tower: '", tower, "' is not a tower; use user or item"));
  }
  const auto side = name == "user" ? simurgh::TowerSide::kUser : simurgh::TowerSide::kItem;
  SIMURGH_ASSIGN_OR_RETURN(const simurgh::SharedVersion version, Current());
  SIMURGH_ASSIGN_OR_RETURN(simurgh::Predictor predictor, Take(*version));
  auto found = std::make_shared<simurgh::TableVectors>();
  SIMURGH_ASSIGN_OR_RETURN(*found, simurgh::VectorsOfTable(*version, predictor, table, side));
  GiveBack(std::move(predictor));
  simurgh::Floats numbers(found->vectors.begin(), found->vectors.end());
  simurgh::Spread(found->is_good, found->width, numbers);
  auto memory = std::make_shared<simurgh::Floats>(std::move(numbers));
  *vectors = {.size = sizeof(*vectors),
              .step = version->step(),
              .rows = found->is_good.size(),
              .width = found->width,
              .vectors = memory->data(),
              .bad_rows = static_cast<uint64_t>(std::ranges::count(found->is_good, false))};
  vectors->memory = new simurgh_memory{memory};
  return absl::OkStatus();
}

int simurgh_model_open(const simurgh_model_options* options, simurgh_model** model) {
  return simurgh::library::Call([&]() -> Status {
    *model = nullptr;
    auto opened = std::make_unique<simurgh_model>();
    SIMURGH_RETURN_IF_ERROR(opened->Open(*options));
    *model = opened.release();
    return absl::OkStatus();
  });
}

int simurgh_model_inputs(simurgh_model* model, simurgh_inputs* inputs) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(
        simurgh::library::CheckSize(inputs->size, sizeof(*inputs), "simurgh_inputs"));
    *inputs = model->inputs->get();
    inputs->ranks = 0;
    return absl::OkStatus();
  });
}

int simurgh_model_step(simurgh_model* model, uint64_t* step) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(model->CheckProcess());
    SIMURGH_ASSIGN_OR_RETURN(const simurgh::SharedVersion version, model->Current());
    *step = version->step();
    return absl::OkStatus();
  });
}

int simurgh_model_versions(simurgh_model* model, simurgh_checkpoints* checkpoints) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(model->CheckProcess());
    return model->Versions(checkpoints);
  });
}

int simurgh_model_predict(simurgh_model* model, struct ArrowArrayStream* table,
                          simurgh_result* result) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckTable(table));
    const simurgh::library::ReleasedTable released(table);
    SIMURGH_RETURN_IF_ERROR(model->CheckProcess());
    return model->Read(table, /*predicts=*/true, result);
  });
}

int simurgh_model_features(simurgh_model* model, struct ArrowArrayStream* table,
                           simurgh_result* result) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckTable(table));
    const simurgh::library::ReleasedTable released(table);
    SIMURGH_RETURN_IF_ERROR(model->CheckProcess());
    return model->Read(table, /*predicts=*/false, result);
  });
}

int simurgh_model_evaluate(simurgh_model* model, struct ArrowArrayStream* table,
                           const float* outputs, uint64_t count, simurgh_evaluation* evaluation) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckTable(table));
    const simurgh::library::ReleasedTable released(table);
    SIMURGH_RETURN_IF_ERROR(model->CheckProcess());
    return model->Evaluate(table, outputs, count, evaluation);
  });
}

int simurgh_model_vectors(simurgh_model* model, struct ArrowArrayStream* table, const char* tower,
                          simurgh_vectors* vectors) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckTable(table));
    const simurgh::library::ReleasedTable released(table);
    SIMURGH_RETURN_IF_ERROR(model->CheckProcess());
    SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckPointer(tower, "tower"));
    return model->Vectors(table, tower, vectors);
  });
}

int simurgh_model_recommend(simurgh_model* model, struct ArrowArrayStream* table,
                            const simurgh_recommend_options* options,
                            simurgh_recommendations* recommendations) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckTable(table));
    const simurgh::library::ReleasedTable released(table);
    SIMURGH_RETURN_IF_ERROR(model->CheckProcess());
    return model->Recommend(table, *options, recommendations);
  });
}

int simurgh_model_rows(simurgh_model* model, const char* feature, const uint64_t* ids,
                       uint64_t count, float* weights, uint8_t* found) {
  return simurgh::library::Call([&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(model->CheckProcess());
    SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckPointer(feature, "feature"));
    if (count > 0) {
      SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckPointer(ids, "ids"));
      SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckPointer(weights, "weights"));
      SIMURGH_RETURN_IF_ERROR(simurgh::library::CheckPointer(found, "found"));
    }
    return model->Rows(feature, {ids, count}, weights, found);
  });
}

int simurgh_model_close(simurgh_model* model) {
  return simurgh::library::Call([&]() -> Status {
    if (model != nullptr) SIMURGH_RETURN_IF_ERROR(model->CheckProcess());
    delete model;
    return absl::OkStatus();
  });
}
