// Ranks that train and evaluate through embedding workers, as a model: whatever may happen next
// happens in a random order, with forward buffers that are far too small, and workers that die.
// There must always be something that can happen, and the buffers must keep their bounds.

#include <algorithm>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "embedding/forward_buffer.h"

namespace simurgh {
namespace {

constexpr uint64_t kSteps = 14;
constexpr uint64_t kEvaluatedBatches = 5;
constexpr size_t kMaxBytes = 1'000;

struct Settings {
  uint64_t seed = 0;
  uint32_t ranks = 1;
  size_t workers = 1;
  uint32_t staleness = 1;
  bool reproducible = false;  // If false, a push does not wait for other ranks.
  uint64_t queue = 1;         // Batches submitted ahead.
  uint64_t evaluate_every = 1;
  size_t capacity_batches = 0;
  size_t capacity_bytes = 0;
  int deaths = 0;

  uint32_t lookahead_steps() const { return reproducible ? staleness : 1; }
};

Settings DrawSettings(uint64_t seed) {
  Random random(seed);
  return {.seed = seed,
          .ranks = 1 + static_cast<uint32_t>(random.Below(3)),
          .workers = 1 + random.Below(3),
          .staleness = 1 + static_cast<uint32_t>(random.Below(4)),
          .reproducible = random.Below(2) == 0,
          .queue = 1 + random.Below(6),
          .evaluate_every = 3 + random.Below(kSteps),
          .capacity_batches = random.Below(12),
          .capacity_bytes = random.Below(6) * kMaxBytes,
          .deaths = static_cast<int>(random.Below(4))};
}

struct ModelBatch {
  enum class State { kUnsubmitted, kInLine, kBuffered, kPulled, kPushing, kDone };

  SubmitOptions options;
  size_t bytes = 0;
  State state = State::kUnsubmitted;
  bool computed = false;
  size_t worker = 0;
  int life = 0;  // Incarnation of the worker.
  uint64_t number = 0;
};

using State = ModelBatch::State;

struct ModelWorker {
  int life = 0;
  std::unique_ptr<ForwardBuffer> buffer;
  std::list<ModelBatch*> line;
};

struct ModelRank {
  std::vector<ModelBatch> training;
  std::vector<ModelBatch> evaluation;
};

// The first batch that is not done.
uint64_t FirstOf(const std::vector<ModelBatch>& batches) {
  return static_cast<uint64_t>(
      std::ranges::find_if(batches, [](const auto& b) { return b.state != State::kDone; }) -
      batches.begin());
}

class Model {
 public:
  explicit Model(const Settings& settings)
      : settings_(settings), random_(settings.seed + 1), workers_(settings.workers) {
    for (ModelWorker& worker : workers_) worker.buffer = NewBuffer();
    for (uint32_t rank = 0; rank < settings.ranks; ++rank) {
      ranks_.push_back(
          {.training = DrawBatches(LookupMode::kTrain, rank, kSteps), .evaluation = {}});
    }
  }

  // Null if no event is possible; `is_over` is whether none is needed.
  std::function<void()> DrawEvent() {
    events_.clear();
    for (ModelRank& rank : ranks_) {
      AddEventsOf(rank.training, settings_.staleness);
      AddEventsOf(rank.evaluation, settings_.staleness);
    }
    for (ModelWorker& worker : workers_) AddAdmissions(worker);
    AddSteps();
    if (events_.empty()) return nullptr;
    const bool dies = deaths_ < settings_.deaths && random_.Below(60) == 0;
    if (dies) return [this] { KillOne(); };
    return events_[random_.Below(events_.size())];
  }

  bool is_over() const { return computed_ == kSteps && !evaluating_ && AllDone(kSteps); }

  void CheckBounds() const {
    const size_t needed = size_t{2} * settings_.ranks * settings_.lookahead_steps();
    for (const ModelWorker& worker : workers_) {
      REQUIRE(worker.buffer->size() <= settings_.capacity_batches + needed);
      REQUIRE(worker.buffer->bytes() <= settings_.capacity_bytes + needed * kMaxBytes);
    }
  }

 private:
  std::unique_ptr<ForwardBuffer> NewBuffer() const {
    return std::make_unique<ForwardBuffer>(settings_.capacity_batches, settings_.capacity_bytes,
                                           std::chrono::milliseconds(1), [] {});
  }

  std::vector<ModelBatch> DrawBatches(LookupMode mode, uint32_t rank, uint64_t count) {
    std::vector<ModelBatch> batches(count);
    for (uint64_t step = 0; step < count; ++step) {
      batches[step].options = {
          .mode = mode,
          .run = 5,
          .rank = rank,
          .step = step,
          .lookahead_steps = mode == LookupMode::kTrain ? settings_.lookahead_steps() : 1};
      batches[step].bytes = 8 * random_.Below(kMaxBytes / 8 + 1);
    }
    return batches;
  }

  bool AllDone(uint64_t steps) const {
    return std::ranges::all_of(
        ranks_, [&](const ModelRank& rank) { return FirstOf(rank.training) >= steps; });
  }

  // False if the worker has lost the batch, which is then submitted again.
  bool IsKnown(ModelBatch& batch) {
    ModelWorker& worker = workers_[batch.worker];
    if (batch.life == worker.life && worker.buffer->Find(batch.number, {}).ok()) return true;
    batch.state = State::kUnsubmitted;
    return false;
  }

  void Release(ModelBatch& batch) {
    ModelWorker& worker = workers_[batch.worker];
    if (batch.life == worker.life) worker.buffer->Remove(batch.number);
  }

  // Adds the events that a pipeline with these batches allows, like BatchQueue.
  void AddEventsOf(std::vector<ModelBatch>& batches, uint64_t staleness) {
    const uint64_t first = FirstOf(batches);
    const uint64_t end = std::min<uint64_t>(batches.size(), first + staleness + settings_.queue);
    bool earlier_are_submitted = true;
    bool earlier_are_pulled = true;
    for (uint64_t step = first; step < end; ++step) {
      ModelBatch& batch = batches[step];
      const bool in_order = earlier_are_pulled || !IsOrdered(batch);
      if (batch.state == State::kUnsubmitted && earlier_are_submitted) {
        events_.emplace_back([this, &batch] { Submit(batch); });
      } else if (batch.state == State::kBuffered && batch.computed) {
        if (MayPush(batches, step)) events_.emplace_back([this, &batch] { Push(batch); });
      } else if (batch.state == State::kBuffered && step < first + staleness && in_order) {
        events_.emplace_back([this, &batch] { Pull(batch); });
      }
      earlier_are_submitted = earlier_are_submitted && batch.state != State::kUnsubmitted &&
                              batch.state != State::kInLine;
      earlier_are_pulled = earlier_are_pulled && (batch.computed || batch.state == State::kPulled);
    }
  }

  bool IsOrdered(const ModelBatch& batch) const {
    return settings_.reproducible && batch.options.mode == LookupMode::kTrain;
  }

  bool MayPush(const std::vector<ModelBatch>& batches, uint64_t step) const {
    if (!settings_.reproducible) return true;
    if (FirstOf(batches) < step) return false;
    const uint64_t end = std::min<uint64_t>(batches.size(), step + settings_.staleness);
    return std::all_of(batches.begin() + static_cast<ptrdiff_t>(step),
                       batches.begin() + static_cast<ptrdiff_t>(end),
                       [](const ModelBatch& b) { return b.computed || b.state == State::kPulled; });
  }

  void Submit(ModelBatch& batch) {
    batch.worker = random_.Below(workers_.size());
    workers_[batch.worker].line.push_back(&batch);
    batch.state = State::kInLine;
  }

  void Pull(ModelBatch& batch) {
    if (!IsKnown(batch)) return;
    batch.state = State::kPulled;
    if (batch.options.mode == LookupMode::kEvaluate) Release(batch);
  }

  void Push(ModelBatch& batch) {
    if (!IsKnown(batch)) return;
    batch.state = State::kPushing;
    if (!settings_.reproducible) Acknowledge(batch);
  }

  void Acknowledge(ModelBatch& batch) {
    Release(batch);
    batch.state = State::kDone;
  }

  // Those at the front that have room, and those that are needed.
  void AddAdmissions(ModelWorker& worker) {
    for (auto place = worker.line.begin(); place != worker.line.end(); ++place) {
      const ModelBatch& batch = **place;
      const bool has_room = place == worker.line.begin() && worker.buffer->HasRoom(batch.bytes);
      if (!has_room && !worker.buffer->IsExemptFromLimit(batch.options)) continue;
      events_.emplace_back([this, &worker, place] { Admit(worker, place); });
    }
  }

  void Admit(ModelWorker& worker, std::list<ModelBatch*>::iterator place) {
    ModelBatch& batch = **place;
    worker.line.erase(place);
    auto buffered = std::make_shared<BufferedBatch>();
    buffered->decoded.ids.resize(batch.bytes / 8);
    batch.number = worker.buffer->Reserve(batch.options, batch.bytes).Fill(std::move(buffered), {});
    batch.life = worker.life;
    batch.state = State::kBuffered;
  }

  // What ranks do together: dense sums of a step, pushes that servers hold, evaluations.
  void AddSteps() {
    for (uint64_t step = 0; settings_.reproducible && step < computed_; ++step) {
      if (!AllAre(step, State::kPushing)) continue;
      events_.emplace_back([this, step] {
        for (ModelRank& rank : ranks_) Acknowledge(rank.training[step]);
      });
    }
    if (evaluating_) {
      AddEvaluation();
    } else if (computed_ < kSteps && AllAre(computed_, State::kPulled)) {
      events_.emplace_back([this] { Compute(); });
    }
  }

  bool AllAre(uint64_t step, State state) const {
    return std::ranges::all_of(
        ranks_, [&](const ModelRank& rank) { return rank.training[step].state == state; });
  }

  void Compute() {
    for (ModelRank& rank : ranks_) {
      rank.training[computed_].computed = true;
      rank.training[computed_].state = State::kBuffered;
    }
    ++computed_;
    evaluating_ = computed_ % settings_.evaluate_every == 0;
  }

  // Begins when all pushes are acknowledged, ends when all ranks have no batch left.
  void AddEvaluation() {
    if (ranks_[0].evaluation.empty()) {
      if (AllDone(computed_)) events_.emplace_back([this] { BeginEvaluation(); });
      return;
    }
    bool all_have_ended = true;
    for (ModelRank& rank : ranks_) {
      const uint64_t first = FirstOf(rank.evaluation);
      all_have_ended = all_have_ended && first == rank.evaluation.size();
      if (first == rank.evaluation.size()) continue;
      ModelBatch& next = rank.evaluation[first];
      if (next.state != State::kPulled) continue;
      events_.emplace_back([&next] { next.state = State::kDone; });
    }
    if (!all_have_ended) return;
    events_.emplace_back([this] {
      evaluating_ = false;
      for (ModelRank& rank : ranks_) rank.evaluation.clear();
    });
  }

  void BeginEvaluation() {
    for (uint32_t rank = 0; rank < settings_.ranks; ++rank) {
      ranks_[rank].evaluation = DrawBatches(LookupMode::kEvaluate, rank, kEvaluatedBatches);
    }
  }

  // Pending calls fail at once, later calls when they are made.
  void KillOne() {
    ++deaths_;
    const size_t index = random_.Below(workers_.size());
    ModelWorker& worker = workers_[index];
    for (ModelBatch* batch : worker.line) batch->state = State::kUnsubmitted;
    worker.line.clear();
    for (ModelRank& rank : ranks_) {
      for (ModelBatch& batch : rank.training) {
        const bool is_lost = batch.state == State::kPushing && batch.worker == index;
        if (is_lost) batch.state = State::kUnsubmitted;
      }
    }
    worker.buffer = NewBuffer();
    ++worker.life;
  }

  const Settings settings_;
  Random random_;
  std::vector<ModelWorker> workers_;
  std::vector<ModelRank> ranks_;
  std::vector<std::function<void()>> events_;
  uint64_t computed_ = 0;  // Steps.
  bool evaluating_ = false;
  int deaths_ = 0;
};

TEST_CASE("However small forward buffers are, all runs end within the bounds") {
  for (uint64_t seed = 1; seed <= 3'000; ++seed) {
    const Settings settings = DrawSettings(seed);
    CAPTURE(seed, settings.ranks, settings.workers, settings.staleness, settings.reproducible,
            settings.queue, settings.capacity_batches, settings.capacity_bytes, settings.deaths);
    Model model(settings);
    while (const auto event = model.DrawEvent()) {
      event();
      model.CheckBounds();
    }
    REQUIRE(model.is_over());
  }
}

}  // namespace
}  // namespace simurgh
