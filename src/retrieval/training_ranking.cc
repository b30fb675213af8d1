#include "retrieval/training_ranking.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "retrieval/item_vectors.h"
#include "retrieval/ranking_metrics.h"

#include "base/log.h"
#include "config/retrieval.h"

namespace simurgh {
namespace {

constexpr size_t kNumbers = 5;  // Counts and means of a ranking, without those at each k.

// Numbers of a ranking, to send them to the other ranks.
std::vector<double> NumbersOf(const RankingResult& ranking) {
  std::vector<double> numbers = {
      static_cast<double>(ranking.users), static_cast<double>(ranking.items),
      static_cast<double>(ranking.unknown_items), ranking.mrr, ranking.popular_recall};
  for (const RankingResult::AtK& at : ranking.at) {
    numbers.insert(numbers.end(), {at.recall, at.hit_rate, at.ndcg});
  }
  return numbers;
}

RankingResult RankingOf(std::span<const double> numbers, std::span<const uint32_t> top) {
  RankingResult ranking{.users = static_cast<uint64_t>(numbers[0]),
                        .items = static_cast<uint64_t>(numbers[1]),
                        .unknown_items = static_cast<uint64_t>(numbers[2]),
                        .mrr = numbers[3],
                        .popular_recall = numbers[4]};
  for (size_t i = 0; i < top.size(); ++i) {
    const std::span<const double> own = numbers.subspan(kNumbers + 3 * i, 3);
    ranking.at.push_back({.k = top[i], .recall = own[0], .hit_rate = own[1], .ndcg = own[2]});
  }
  return ranking;
}

}  // namespace

bool RanksItems(const ClusterConfig& config) { return IsInBatch(config.model); }

EvaluationResult ResultOf(const ClusterConfig& config, RankingResult ranking) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  return {.loss_kind = TasksOf(config.model).front().loss.kind,
          .samples = ranking.users,
          .auc = kNaN,
          .log_loss = kNaN,
          .normalized_entropy = kNaN,
          .group_auc = kNaN,
          .calibration = kNaN,
          .rmse = kNaN,
          .constant_rmse = kNaN,
          .loss = kNaN,
          .ranking = std::move(ranking)};
}

const std::vector<std::string>& RankingEvaluation::FilesOf(EvaluationSet set) const {
  return set == EvaluationSet::kTest ? config_.data.test : config_.data.validation;
}

Status RankingEvaluation::Load() {
  SIMURGH_ASSIGN_OR_RETURN(items_, ReadItemIds(config_));
  for (const EvaluationSet set : {EvaluationSet::kValidation, EvaluationSet::kTest}) {
    const std::vector<std::string>& files = FilesOf(set);
    if (files.empty()) continue;
    const char* const name = set == EvaluationSet::kTest ? "data.test" : "data.validation";
    StatusOr<RankedUsers> users =
        ReadRankedUsers(config_, config_.data, *items_, OpenLabelledRows(config_, files));
    if (!users.ok()) return Annotate(users.status(), name);
    uint64_t unknown = 0;
    for (const UserItems& user : users->items()) unknown += user.unknown;
    if (unknown > 0) {
      spdlog::warn(
          "{} has relevant items that data.items lacks, which count as not found: items={}", name,
          unknown);
    }
    // An update tests on the rows that it will train on, which must not tell what is popular.
    const bool tests_first = files == config_.data.train;
    SIMURGH_ASSIGN_OR_RETURN(
        const double popular_recall,
        tests_first ? std::numeric_limits<double>::quiet_NaN() : users->PopularRecall());
    (set == EvaluationSet::kTest ? test_ : validation_) = {.users = *std::move(users),
                                                           .popular_recall = popular_recall};
  }
  return absl::OkStatus();
}

StatusOr<RankingResult> RankingEvaluation::Rank(EmbeddingPort& port, DenseNetwork& network,
                                                const StepId& step_id, EvaluationSet set,
                                                const EvaluationOptions& options,
                                                const std::stop_token& stop) {
  const Ranked& ranked = set == EvaluationSet::kTest ? *test_ : *validation_;
  const RankedUsers& users = ranked.users;
  SIMURGH_ASSIGN_OR_RETURN(const size_t dim, VectorWidth(config_));
  const std::unique_ptr<Collective> alone = NewLocalCollective();
  // Calls take(row, both vectors) for each row, counted from 0.
  const auto predict = [&](const DataConfig& data, const std::vector<std::string>& files,
                           bool ignore_labels, const auto& take) {
    EvaluationOptions own = options;
    uint64_t row = 0;
    own.sink = [&](const Batch& batch, std::span<const float> /*probabilities*/) -> Status {
      SIMURGH_ASSIGN_OR_RETURN(const MatrixView<const float> both, network.LastTowerInput());
      for (size_t i = 0; i < batch.size(); ++i) take(row++, both.row(i));
      return absl::OkStatus();
    };
    const OpenReader open = [&]() -> StatusOr<std::unique_ptr<BatchReader>> {
      SIMURGH_ASSIGN_OR_RETURN(
          auto reader,
          OpenBatchReader(data, config_.features, files, config_.training.batch_size,
                          {.ignore_labels = ignore_labels, .threads = ReadingThreads(data)}));
      return wrap_(std::move(reader));
    };
    return Predict(port, network, *alone, step_id, open, own, stop);
  };
  const ItemsConfig& items = config_.data.items;
  SIMURGH_ASSIGN_OR_RETURN(
      const DataConfig item_data,
      DataOfTower(config_, config_.data, TowerSide::kItem, {items.id}, items.files));
  std::vector<float> of_items(items_->size() * dim);
  uint64_t read = 0;
  SIMURGH_RETURN_IF_ERROR(predict(item_data, items.files, /*ignore_labels=*/true,
                                  [&](uint64_t row, std::span<const float> both) {
                                    ++read;
                                    if (row >= items_->size()) return;
                                    std::ranges::copy(
                                        both.subspan(dim),
                                        of_items.begin() + static_cast<std::ptrdiff_t>(row * dim));
                                  }));
  if (read != items_->size()) {
    return absl::FailedPreconditionError(absl::StrCat("data.items: the files had ", items_->size(),
                                                      " items, and now have ", read,
                                                      "; do not change them during a run"));
  }
  std::vector<float> of_users(users.size() * dim);
  SIMURGH_RETURN_IF_ERROR(
      predict(config_.data, FilesOf(set), /*ignore_labels=*/false,
              [&](uint64_t row, std::span<const float> both) {
                if (const std::optional<uint32_t> user = users.UserOf(row)) {
                  std::ranges::copy(both.first(dim),
                                    of_users.begin() + static_cast<std::ptrdiff_t>(*user * dim));
                }
              }));
  SIMURGH_ASSIGN_OR_RETURN(RankingResult result, RankItems({of_users.data(), users.size(), dim},
                                                           {of_items.data(), items_->size(), dim},
                                                           users.items(), items.top));
  result.popular_recall = ranked.popular_recall;
  return result;
}

StatusOr<EvaluationResult> RankingEvaluation::Evaluate(EmbeddingPort& port, DenseNetwork& network,
                                                       Collective& collective,
                                                       const StepId& step_id, EvaluationSet set,
                                                       EvaluationOptions options,
                                                       const std::stop_token& stop) {
  const std::vector<uint32_t>& top = config_.data.items.top;
  std::vector<double> numbers(kNumbers + 3 * top.size());
  if (collective.rank() == 0) {
    SIMURGH_ASSIGN_OR_RETURN(const RankingResult ranking,
                             Rank(port, network, step_id, set, options, stop));
    numbers = NumbersOf(ranking);
  }
  SIMURGH_RETURN_IF_ERROR(collective.Sum(Channel::kStep, numbers));
  return ResultOf(config_, RankingOf(numbers, top));
}

}  // namespace simurgh
