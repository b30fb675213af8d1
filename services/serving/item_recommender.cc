#include "services/serving/item_recommender.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "retrieval/item_catalog.h"

#include "base/log.h"
#include "base/thread.h"
#include "config/nearest.h"
#include "config/retrieval.h"
#include "tensor/finite.h"

namespace simurgh {
namespace {

const GaugeFamily kItems("simurgh_serve_items", "Items that are recommended.");
const GaugeFamily kItemsStep("simurgh_serve_items_step",
                             "Step of the version that computed the vectors of the items.");
const GaugeFamily kItemsLoadSeconds("simurgh_serve_items_load_seconds",
                                    "Time that the last vectors of all items took.");

constexpr std::chrono::seconds kRetry{10};
constexpr size_t kDefaultCandidates = 10;  // For each item that is answered.

Status BadRowsError(const ScoredRows& scored) {
  Problems problems;
  for (const RowProblem& problem : scored.problems) {
    problems.Add(absl::StrCat("row ", problem.row, ": ", problem.message));
  }
  problems.AddMore(scored.bad_rows - scored.problems.size());
  return absl::InvalidArgumentError(problems.Text());
}

}  // namespace

ItemIndex::Options IndexOptionsOf(const ServingConfig& config) {
  ItemIndex::Options options;
  options.precision = config.item_precision == VectorPrecision::kInt8 ? ItemIndex::Precision::kInt8
                                                                      : ItemIndex::Precision::kF32;
  options.graph_from = config.item_graph_from;
  options.threads = ThreadsOf(config);
  return options;
}

// Items, and the version that gave them their vectors.
struct ItemRecommender::Loaded {
  std::shared_ptr<const ModelVersion> version;
  ItemCatalog items;
};

// Loaded items with a version of the ranking model.
struct ItemRecommender::View final : ServedItems {
  // The source of a column of the ranking model.
  struct RankColumn {
    std::optional<size_t> user;  // Index in `users`.
    std::optional<size_t> item;  // Index in the items' columns.
  };

  View(std::shared_ptr<const Loaded> loaded_items, LoadedVersion rank_version)
      : loaded(std::move(loaded_items)), ranker(std::move(rank_version)) {
    const ClusterConfig& config = loaded->version->config();
    const RowFormat& format = loaded->version->format();
    const TwoTowers towers = *TwoTowersOf(config);
    const auto has = [](const std::vector<std::string>& names, const std::string& name) {
      return std::ranges::find(names, name) != names.end();
    };
    const std::vector<std::string> of_users = ColumnsOfTower(config, towers.user);
    const std::vector<std::string> of_items = ColumnsOfTower(config, towers.item);
    users.labels = format.labels;
    users.is_json = format.is_json;
    for (size_t i = 0; i < format.columns.size(); ++i) {
      const std::string& name = format.columns[i].name;
      if (!has(of_users, name) && has(of_items, name)) continue;
      tower_columns.push_back(i);
      users.columns.push_back(format.columns[i]);
    }
    if (ranker.format != nullptr) AddRanker();
  }

  void AddRanker() {
    const std::vector<ItemColumn>& of_items = loaded->items.columns();
    for (const RowFormat::Column& column : ranker.format->columns) {
      RankColumn source;
      const auto item = std::ranges::find(of_items, column.name, &ItemColumn::name);
      const auto user = std::ranges::find(users.columns, column.name, &RowFormat::Column::name);
      if (!column.is_read) {
        // Its cells do not matter.
      } else if (item != of_items.end()) {
        source.item = static_cast<size_t>(item - of_items.begin());
      } else {
        source.user = static_cast<size_t>(user - users.columns.begin());
        if (user == users.columns.end() || !user->is_read) only_sent.push_back(column.name);
        if (user == users.columns.end()) {
          users.columns.push_back(column);
        } else if (user->is_list != column.is_list) {
          rank_problem = absl::StrCat("column '", column.name,
                                      "' has lists in one of both models; train them with the same "
                                      "columns, or send \"rank\": false");
        } else {
          user->is_read = true;
        }
      }
      rank_columns.push_back(source);
    }
    for (const std::string& label : ranker.format->labels) users.labels.push_back(label);
  }

  std::shared_ptr<const Loaded> loaded;
  std::vector<size_t> tower_columns;  // The columns of the version that begin `users`.
  LoadedVersion ranker;               // No format: there is none.
  std::vector<RankColumn> rank_columns;
  std::vector<std::string> only_sent;  // Columns of `ranker` that towers and items lack.
  std::string rank_problem;            // Why the ranking model cannot be used; empty if it can.
};

struct ItemRecommender::Call {
  std::shared_ptr<const View> view;
  RecommendRequest request;
  size_t rows = 0;  // Users.
  bool ranks = false;
  ItemQuery query;  // For the items that are ranked, if they are.
  std::chrono::milliseconds max_wait;
  Done done;

  // Columns of `users`, for the ranking model.
  std::vector<std::vector<Cell>> cells;
  std::shared_ptr<const void> memory;
};

ItemRecommender::ItemRecommender(Options options, ServedVersions& versions, ScoringBackend& users,
                                 ScoringBackend* ranker, MetricRegistry& registry)
    : options_(std::move(options)),
      versions_(versions),
      users_(users),
      ranker_(ranker),
      registry_(registry),
      thread_([this] { Run(); }) {}

ItemRecommender::~ItemRecommender() {
  ends_ = true;
  {
    MutexLock lock(mutex_);
    wake_.NotifyAll();
  }
  thread_.join();
}

std::string ItemRecommender::Problem() const {
  if (const std::string problem = versions_.Problem(); !problem.empty()) return problem;
  const std::shared_ptr<const ModelVersion> version = versions_.Current();
  if (version != nullptr) {
    if (const std::string problem = NoItems(*version); !problem.empty()) return problem;
  }
  {
    MutexLock lock(mutex_);
    if (loaded_ == nullptr) return problem_;
  }
  return ranker_ == nullptr ? "" : ranker_->Problem();
}

std::string ItemRecommender::NoItems(const ModelVersion& version) const {
  if (version.vector_width() == 0) {
    return "the model has no vectors of users and items; train one with model: two_tower";
  }
  if (!ItemCatalog::FilesOf(version, options_.files).empty()) return "";
  return "the model has no data.items; give --items FILE, or set serving.items";
}

bool ItemRecommender::has_no_items() const {
  const std::shared_ptr<const ModelVersion> version = versions_.Current();
  return version != nullptr && !NoItems(*version).empty();
}

std::shared_ptr<const ServedItems> ItemRecommender::Current() const {
  LoadedVersion ranker = ranker_ == nullptr ? LoadedVersion() : ranker_->Current();
  MutexLock lock(mutex_);
  if (loaded_ == nullptr) return nullptr;
  if (view_ == nullptr || view_->loaded != loaded_ || view_->ranker.model != ranker.model) {
    view_ = std::make_shared<const View>(loaded_, std::move(ranker));
    if (!view_->only_sent.empty()) {
      spdlog::warn(
          "the ranking model reads {}, which the items and the towers' users lack; add it to the "
          "items "
          "or requests",
          absl::StrJoin(view_->only_sent, ", "));
    }
  }
  return view_;
}

void ItemRecommender::Run() {
  SetThreadName("items");
  while (!ends_) {
    Follow();
    MutexLock lock(mutex_);
    if (!ends_) wake_.WaitUntil(mutex_, Clock::now() + options_.poll);
  }
}

void ItemRecommender::Follow() {
  std::shared_ptr<const ModelVersion> version = versions_.Current();
  if (version == nullptr) return;
  if (!NoItems(*version).empty()) {
    used_ = {};
    versions_.SetItemBytes(0);
    MutexLock lock(mutex_);
    loaded_ = nullptr;
    view_ = nullptr;
    return;
  }
  CatalogSource source =
      CatalogSource::Of(*version, ItemCatalog::FilesOf(*version, options_.files));
  if (source == used_ || (source == failed_ && Clock::now() < retry_)) return;
  const Clock::time_point begin = Clock::now();
  StatusOr<std::shared_ptr<const Loaded>> loaded = Load(version, source.files);
  if (!loaded.ok()) {
    if (absl::IsCancelled(loaded.status())) return;
    const std::string problem(loaded.status().message());
    if (source != failed_) {
      spdlog::error("items not used: step={} problem=\"{}\"", version->step(), problem);
    }
    failed_ = std::move(source);
    retry_ = Clock::now() + kRetry;
    MutexLock lock(mutex_);
    problem_ = problem;
    return;
  }
  used_ = std::move(source);
  failed_ = {};
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const ItemCatalog& items = (*loaded)->items;
  spdlog::info("items: step={} items={} bytes={} graph={} seconds={:.3f}", version->step(),
               items.ids().size(), items.bytes(), items.index().has_graph(), seconds);
  versions_.SetItemBytes(items.bytes());
  MutexLock lock(mutex_);
  loaded_ = *loaded;
  view_ = nullptr;
  problem_.clear();
  registry_.Get(kItems).Set(static_cast<double>(items.ids().size()));
  registry_.Get(kItemsStep).Set(static_cast<double>(version->step()));
  registry_.Get(kItemsLoadSeconds).Set(seconds);
}

StatusOr<std::shared_ptr<const ItemRecommender::Loaded>> ItemRecommender::Load(
    std::shared_ptr<const ModelVersion> version, const std::vector<std::string>& files) const {
  ItemIndex::Options options = options_.index;
  options.ends = &ends_;
  SIMURGH_ASSIGN_OR_RETURN(ItemCatalog items,
                           ItemCatalog::Load(*version, files, options_.id, options));
  if (const uint64_t left = versions_.BytesLeft(); items.bytes() > left) {
    return absl::ResourceExhaustedError(absl::StrCat(
        files.front(), ": the items need ", items.bytes(), " bytes, ", left,
        " are left of serving.memory_budget next to the model and the items in use; raise it"));
  }
  return std::make_shared<const Loaded>(Loaded{std::move(version), std::move(items)});
}

void ItemRecommender::Recommend(std::shared_ptr<const ServedItems> items, RecommendRequest request,
                                std::chrono::milliseconds max_wait, Done done) {
  auto call = std::make_unique<Call>();
  call->view = std::static_pointer_cast<const View>(std::move(items));
  const View& view = *call->view;
  const Loaded& loaded = *view.loaded;
  const size_t rows = request.users.rows.rows;
  const bool has_ranker = view.ranker.format != nullptr;
  call->ranks = request.rank.value_or(ranker_ != nullptr);
  const auto refuse = [&](Status status) { std::move(done)(std::move(status)); };
  const auto refuse_value = [&](std::string message) {
    refuse(absl::InvalidArgumentError(std::move(message)));
  };
  if (call->ranks && ranker_ == nullptr) {
    return refuse_value("rank: this server has no ranking model; give --rank-model, or remove it");
  }
  if (call->ranks && !has_ranker) {
    return refuse(absl::UnavailableError(
        absl::StrCat("no version of the ranking model: ", ranker_->Problem())));
  }
  if (call->ranks && !view.rank_problem.empty()) return refuse_value(view.rank_problem);
  if (request.candidates && !call->ranks) {
    return refuse_value("candidates: is for a ranking model, which is not used; remove it");
  }
  if (request.candidates && *request.candidates < request.k) {
    return refuse_value(absl::StrCat("candidates: ", *request.candidates, " is less than k, ",
                                     request.k, "; use at least k"));
  }
  const size_t most = options_.max_rank_rows / rows;
  const size_t wanted = request.candidates.value_or(request.k);
  if (call->ranks && wanted > most) {
    return refuse_value(absl::StrCat(request.candidates ? "candidates: " : "k: ", wanted, " for ",
                                     rows, " users are more rows than ", options_.max_rank_rows,
                                     "; send less, or raise serving.max_rows"));
  }
  call->query.k = !call->ranks         ? request.k
                  : request.candidates ? *request.candidates
                                       : std::min(kDefaultCandidates * request.k, most);
  call->query.exclude = std::move(request.exclude);
  call->query.filters = std::move(request.filters);
  call->rows = rows;
  call->max_wait = max_wait;
  call->done = std::move(done);

  ScoreRequest users;
  users.rows = rows;
  users.user_vectors = true;
  users.columns.resize(loaded.version->format().columns.size());
  std::vector<std::vector<Cell>>& cells = request.users.rows.columns;
  for (size_t i = 0; i < view.tower_columns.size(); ++i) {
    users.columns[view.tower_columns[i]] = call->ranks ? cells[i] : std::move(cells[i]);
  }
  users.memory = request.users.rows.memory;
  if (call->ranks) {
    call->cells = std::move(cells);
    call->memory = users.memory;
  }
  call->request = std::move(request);
  LoadedVersion version{
      .step = loaded.version->step(),
      .format = std::shared_ptr<const RowFormat>(loaded.version, &loaded.version->format()),
      .model = loaded.version,
      .is_named = true};
  users_.Score(version, std::move(users), max_wait,
               [this, version, call = std::move(call)](StatusOr<ScoredRows> scored) mutable {
                 if (absl::IsNotFound(scored.status())) {
                   scored = absl::UnavailableError(scored.status().message());
                 }
                 if (!scored.ok()) return std::move(call->done)(scored.status());
                 if (scored->bad_rows > 0) return std::move(call->done)(BadRowsError(*scored));
                 users_.NoteAnswer(version);
                 Search(std::move(call), *scored);
               });
}

void ItemRecommender::Search(std::unique_ptr<Call> call, const ScoredRows& users) {
  const Loaded& loaded = *call->view->loaded;
  const ItemCatalog& items = loaded.items;
  StatusOr<std::vector<std::vector<FoundItem>>> found =
      items.Search({users.probabilities.data(), call->rows, items.index().dim()}, call->query);
  if (!found.ok()) return std::move(call->done)(found.status());
  if (call->ranks) return Rank(std::move(call), *std::move(found));
  Recommendations answer{.users = {}, .step = loaded.version->step(), .memory = call->view};
  for (const std::vector<FoundItem>& of_user : *found) {
    Recommendations::OfUser& user = answer.users.emplace_back();
    for (const FoundItem& item : of_user) {
      user.ids.push_back(items.ids().texts()[item.position]);
      user.scores.push_back(item.score);
    }
  }
  std::move(call->done)(std::move(answer));
}

void ItemRecommender::Rank(std::unique_ptr<Call> call, std::vector<std::vector<FoundItem>> found) {
  const View& view = *call->view;
  ScoreRequest rows;
  for (const std::vector<FoundItem>& of_user : found) rows.rows += of_user.size();
  rows.columns.resize(view.rank_columns.size());
  for (size_t column = 0; column < rows.columns.size(); ++column) {
    std::vector<Cell>& cells = rows.columns[column];
    const View::RankColumn& source = view.rank_columns[column];
    if (source.item) {
      const ItemColumn& of_items = view.loaded->items.columns()[*source.item];
      for (const std::vector<FoundItem>& of_user : found) {
        for (const FoundItem& item : of_user) {
          cells.push_back({.kind = Cell::Kind::kText, .text = of_items.text(item.position)});
        }
      }
    } else if (source.user) {
      const std::vector<Cell>& of_users = call->cells[*source.user];
      if (of_users.size() <= 1) {
        cells = of_users;  // All rows share it.
        continue;
      }
      for (size_t user = 0; user < found.size(); ++user) {
        cells.insert(cells.end(), found[user].size(), of_users[user]);
      }
    }
  }
  rows.memory =
      std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
          call->memory, call->view);
  const LoadedVersion version = view.ranker;
  const std::chrono::milliseconds max_wait = call->max_wait;
  auto answer = [call = std::move(call),
                 found = std::move(found)](StatusOr<ScoredRows> scored) mutable {
    if (!scored.ok()) {
      return std::move(call->done)(Annotate(scored.status(), "the ranking model"));
    }
    const View& served = *call->view;
    const size_t labels = served.ranker.format->labels.size();
    Recommendations recommended{.users = {},
                                .step = served.loaded->version->step(),
                                .rank_step = scored->step.value_or(served.ranker.step),
                                .memory = call->view};
    const float* next = scored->probabilities.data();
    size_t ranked = 0;
    for (std::vector<FoundItem>& of_user : found) {
      for (FoundItem& item : of_user) {
        item.score = *next;
        next += labels;
      }
      std::erase_if(of_user, [](const FoundItem& item) { return std::isnan(item.score); });
      std::ranges::sort(of_user, IsBetter);
      of_user.resize(std::min<size_t>(of_user.size(), call->request.k));
      ranked += of_user.size();
      Recommendations::OfUser& user = recommended.users.emplace_back();
      for (const FoundItem& item : of_user) {
        user.ids.push_back(served.loaded->items.ids().texts()[item.position]);
        user.scores.push_back(item.score);
      }
    }
    if (ranked == 0 && scored->bad_rows > 0) {
      return std::move(call->done)(Annotate(BadRowsError(*scored), "the ranking model"));
    }
    std::move(call->done)(std::move(recommended));
  };
  if (rows.rows == 0) return std::move(answer)(ScoredRows());
  ranker_->Score(version, std::move(rows), max_wait, std::move(answer));
}

}  // namespace simurgh
