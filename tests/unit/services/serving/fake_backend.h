#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "services/serving/scoring_backend.h"
#include "tests/unit/services/serving/format.h"

namespace simurgh {

// Recommends the items "a" and "b" to users whose city is not "bad", with the rows of
// SampleFormat().
class FakeRecommender final : public Recommender {
 public:
  FakeRecommender() { items_->users = SampleFormat(); }

  std::string Problem() const override { return problem; }
  bool has_no_items() const override { return is_empty; }
  std::shared_ptr<const ServedItems> Current() const override {
    return problem.empty() ? items_ : nullptr;
  }
  void Recommend(std::shared_ptr<const ServedItems> items, RecommendRequest request,
                 std::chrono::milliseconds /*max_wait*/, Done done) override {
    if (!refusal.ok()) return std::move(done)(refusal);
    Recommendations found{.step = 120, .memory = std::move(items)};
    for (size_t user = 0; user < request.users.rows.rows; ++user) {
      found.users.push_back({.ids = {"a", "b"}, .scores = {2, static_cast<float>(request.k)}});
    }
    std::move(done)(std::move(found));
  }

  // Set by the test before a request.
  std::string problem;
  bool is_empty = false;
  Status refusal;

 private:
  std::shared_ptr<ServedItems> items_ = std::make_shared<ServedItems>();
};

// Predicts the number of characters of column `city`, divided by 100, for each label. A city "bad"
// is a bad row. Has the versions 110 and 120, unless changed.
//
// Threads: any.
class FakeBackend final : public ScoringBackend {
 public:
  explicit FakeBackend(RowFormat format = SampleFormat())
      : format_(std::make_shared<const RowFormat>(std::move(format))) {}

  LoadedVersion Current() override {
    const std::vector<uint64_t> steps = Steps();
    return steps.empty() ? LoadedVersion{} : Find(steps.front());
  }
  LoadedVersion Find(uint64_t step) override {
    MutexLock lock(mutex_);
    for (const uint64_t one : steps_) {
      if (one == step) return {.step = step, .format = format_, .model = nullptr};
    }
    return {};
  }
  std::vector<uint64_t> Steps() override {
    MutexLock lock(mutex_);
    return steps_;
  }
  std::string Problem() override {
    MutexLock lock(mutex_);
    return problem_;
  }

  bool Refuses(std::chrono::milliseconds /*max_wait*/) override {
    MutexLock lock(mutex_);
    return is_full_;
  }
  void Score(const LoadedVersion& version, ScoreRequest request, std::chrono::milliseconds max_wait,
             Done done) override {
    Status refusal;
    std::optional<uint64_t> step;
    {
      MutexLock lock(mutex_);
      step = answers_step_;
      max_wait_ = max_wait;
      last_step_ = version.step;
      refusal = refusal_;
      if (holds_ && refusal.ok()) {
        held_.emplace_back(std::move(request), std::move(done));
        return;
      }
    }
    if (!refusal.ok()) return std::move(done)(refusal);
    ScoredRows rows = Predict(request);
    rows.step = step;
    std::move(done)(std::move(rows));
  }

  Recommender* recommender() override { return recommends; }

  Recommender* recommends = nullptr;  // Set by the test before a request.

  void SetSteps(std::vector<uint64_t> steps, std::string problem) {
    MutexLock lock(mutex_);
    steps_ = std::move(steps);
    problem_ = std::move(problem);
  }
  void Refuse(Status status) {
    MutexLock lock(mutex_);
    refusal_ = std::move(status);
  }
  // From now on requests would wait too long.
  void Fill() {
    MutexLock lock(mutex_);
    is_full_ = true;
  }
  // From now on answers are of this version, whatever was asked.
  void AnswerWith(uint64_t step) {
    MutexLock lock(mutex_);
    answers_step_ = step;
  }
  // From now on requests wait for AnswerHeld.
  void Hold() {
    MutexLock lock(mutex_);
    holds_ = true;
  }
  size_t held() const {
    MutexLock lock(mutex_);
    return held_.size();
  }
  void AnswerHeld() {
    std::vector<std::pair<ScoreRequest, Done>> held;
    {
      MutexLock lock(mutex_);
      holds_ = false;
      held.swap(held_);
    }
    for (auto& [request, done] : held) std::move(done)(Predict(request));
  }
  std::chrono::milliseconds max_wait() const {
    MutexLock lock(mutex_);
    return max_wait_;
  }
  uint64_t last_step() const {
    MutexLock lock(mutex_);
    return last_step_;
  }

 private:
  ScoredRows Predict(const ScoreRequest& request) const {
    constexpr size_t kCity = 2;
    ScoredRows rows;
    const std::vector<Cell>& cities = request.columns[kCity];
    for (size_t row = 0; row < request.rows; ++row) {
      const Cell cell = cities.empty() ? Cell{} : cities[cities.size() == 1 ? 0 : row];
      const std::string_view text = cell.kind == Cell::Kind::kText ? cell.text : "";
      float value = static_cast<float>(text.size()) / 100;
      if (text == "bad") {
        value = std::numeric_limits<float>::quiet_NaN();
        ++rows.bad_rows;
        if (rows.problems.size() < ScoredRows::kMaxProblems) {
          rows.problems.push_back({row, "column 'city': 'bad' is bad; correct it"});
        }
      }
      rows.probabilities.insert(rows.probabilities.end(), format_->labels.size(), value);
    }
    return rows;
  }

  const std::shared_ptr<const RowFormat> format_;
  mutable Mutex mutex_;
  std::vector<uint64_t> steps_ ABSL_GUARDED_BY(mutex_) = {120, 110};
  std::string problem_ ABSL_GUARDED_BY(mutex_);
  Status refusal_ ABSL_GUARDED_BY(mutex_);
  bool is_full_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<uint64_t> answers_step_ ABSL_GUARDED_BY(mutex_);
  bool holds_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::pair<ScoreRequest, Done>> held_ ABSL_GUARDED_BY(mutex_);
  std::chrono::milliseconds max_wait_ ABSL_GUARDED_BY(mutex_){0};
  uint64_t last_step_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace simurgh
