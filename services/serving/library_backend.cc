#include <utility>

#include "absl/strings/str_cat.h"

#include "services/serving/item_recommender.h"
#include "services/serving/row_servers.h"
#include "services/serving/scoring_backend.h"

namespace simurgh {
namespace {

ModelVersion::Options LoadingOf(const ServingConfig& config, std::shared_ptr<RemoteRows> rows,
                                std::shared_ptr<ProgramNetwork> program) {
  return {.overrides = config.model_overrides,
          .allow_plugins = config.allow_plugins,
          .remote = std::move(rows),
          .hot_row_bytes = config.hot_row_bytes / ThreadsOf(config),
          .row_precision = config.row_precision,
          .maps_rows = config.rows == ServingConfig::Rows::kMapped,
          .program = std::move(program)};
}

LoadedVersion Loaded(std::shared_ptr<const ModelVersion> model) {
  if (model == nullptr) return {};
  LoadedVersion version;
  version.step = model->step();
  version.format = std::shared_ptr<const RowFormat>(model, &model->format());
  version.model = std::move(model);
  return version;
}

std::unique_ptr<LibraryBackend> MakeRanker(const ServingConfig& config, MetricRegistry& registry) {
  if (config.rank_model.empty()) return nullptr;
  ServingConfig ranking = config;
  ranking.model = config.rank_model;
  ranking.rank_model.clear();
  ranking.version = ServingConfig().version;
  ranking.rows = ServingConfig::Rows::kMemory;
  return std::make_unique<LibraryBackend>(ranking, /*rows=*/nullptr, /*program=*/nullptr, registry,
                                          /*recommends=*/false);
}

ItemRecommender::Options RecommendOptions(const ServingConfig& config) {
  return {.files = config.items,
          .id = config.item_id,
          .index = IndexOptionsOf(config),
          .poll = config.poll,
          .max_rank_rows = config.max_rows};
}

Status Gone(const LoadedVersion& version) {
  return absl::UnavailableError(
      absl::StrCat("servers do not have the rows of version ", version.step, " any more"));
}

}  // namespace

StatusOr<std::unique_ptr<LibraryBackend>> LibraryBackend::Create(
    const ServingConfig& config, std::shared_ptr<ProgramNetwork> program,
    MetricRegistry& registry) {
  std::shared_ptr<RemoteRows> rows;
  if (config.rows == ServingConfig::Rows::kRemote) {
    SIMURGH_ASSIGN_OR_RETURN(rows, RowServers::Create(config, registry));
  }
  return std::make_unique<LibraryBackend>(config, std::move(rows), std::move(program), registry);
}

LibraryBackend::LibraryBackend(const ServingConfig& config, std::shared_ptr<RemoteRows> rows,
                               std::shared_ptr<ProgramNetwork> program, MetricRegistry& registry,
                               bool recommends)
    : is_remote_(rows != nullptr),
      versions_({.model = config.model,
                 .version = config.version,
                 .poll = config.poll,
                 .max_age = config.max_age,
                 .memory_budget = config.memory_budget,
                 .loading = LoadingOf(config, std::move(rows), program)},
                registry),
      ranker_(MakeRanker(config, rank_registry_)),
      recommender_(program == nullptr && recommends
                       ? std::make_unique<ItemRecommender>(RecommendOptions(config), versions_,
                                                           *this, ranker_.get(), registry)
                       : nullptr),
      scorer_({.threads = ThreadsOf(config),
               .max_batch_rows = config.max_batch_rows,
               .batch_delay = config.batch_delay},
              registry) {}

std::string LibraryBackend::Problem() {
  if (recommender_ == nullptr || recommender_->has_no_items()) return versions_.Problem();
  return recommender_->Problem();
}

LoadedVersion LibraryBackend::Current() { return Loaded(versions_.Current()); }

LoadedVersion LibraryBackend::Find(uint64_t step) {
  LoadedVersion version = Loaded(versions_.Find(step));
  version.is_named = true;
  return version;
}

void LibraryBackend::Score(const LoadedVersion& version, ScoreRequest request,
                           std::chrono::milliseconds max_wait, Done done) {
  if (!is_remote_) {
    return scorer_.Submit(version.model, std::move(request), max_wait, std::move(done));
  }
  ScoreRequest again = request;
  scorer_.Submit(version.model, std::move(request), max_wait,
                 [this, version, again = std::move(again), max_wait,
                  done = std::move(done)](StatusOr<ScoredRows> scored) mutable {
                   if (!absl::IsNotFound(scored.status()))
                     return std::move(done)(std::move(scored));
                   ScoreAgain(version, std::move(again), max_wait, std::move(done));
                 });
}

void LibraryBackend::ScoreAgain(const LoadedVersion& version, ScoreRequest request,
                                std::chrono::milliseconds max_wait, Done done) {
  if (version.is_named) {
    return std::move(done)(absl::NotFoundError(Gone(version).message()));
  }
  const LoadedVersion newest = Current();
  // The cells were read for the format of `version`; the newest one can have another.
  if (newest.step == version.step || newest.format.get() != version.format.get()) {
    return std::move(done)(Gone(version));
  }
  scorer_.Submit(newest.model, std::move(request), max_wait,
                 [newest, done = std::move(done)](StatusOr<ScoredRows> scored) mutable {
                   if (absl::IsNotFound(scored.status())) scored = Gone(newest);
                   if (scored.ok()) scored->step = newest.step;
                   std::move(done)(std::move(scored));
                 });
}

Status LibraryBackend::Reload(const ServingConfig& config) {
  versions_.Reload(config.version);
  return absl::OkStatus();
}

}  // namespace simurgh
