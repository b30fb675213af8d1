#include "predict/scorer.h"

#include <algorithm>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "base/thread.h"
#include "predict/predictor.h"

namespace simurgh {

namespace {

const CounterFamily kUnseenIdsTotal("simurgh_serve_unseen_ids_total",
                                    "Distinct ids of batches without a row.", {"table"});
const CounterFamily kMissingCellsTotal("simurgh_serve_missing_cells_total",
                                       "Values that requests lack.", {"column"});
const HistogramFamily kBatchRows("simurgh_serve_batch_rows", "Rows of a batch.");
const CounterFamily kLateRequestsTotal("simurgh_serve_late_requests_total",
                                       "Requests refused because they would wait too long.");

// A series of counters, and what has been added to them.
struct Counts {
  std::vector<Counter*> counters;
  std::vector<uint64_t> added;

  void Update(std::span<const uint64_t> totals) {
    added.resize(totals.size());
    for (size_t i = 0; i < totals.size(); ++i) {
      if (totals[i] > added[i]) counters[i]->Add(totals[i] - std::exchange(added[i], totals[i]));
    }
  }
};

// A predictor and its part of the metrics.
struct Counted {
  Counted(Predictor own, const ModelVersion& model, MetricRegistry& registry)
      : predictor(std::move(own)) {
    for (const TableConfig& table : model.config().tables) {
      unseen.counters.push_back(&registry.Get(kUnseenIdsTotal, {table.name}));
    }
    for (const RowFormat::Column& column : model.format().columns) {
      missing.counters.push_back(&registry.Get(kMissingCellsTotal, {column.name}));
    }
  }

  Status Score(const ModelVersion& model, std::span<const ScoreRequest* const> requests,
               std::span<ScoredRows> scored) {
    SIMURGH_RETURN_IF_ERROR(predictor.Score(model, requests, scored));
    unseen.Update(predictor.unseen_ids());
    missing.Update(predictor.missing_cells());
    return absl::OkStatus();
  }

  Predictor predictor;
  Counts unseen;
  Counts missing;
};

}  // namespace

// A thread's predictor.
struct Scorer::Worker {
  explicit Worker(MetricRegistry& metrics) : registry(metrics) {}

  StatusOr<Counted*> For(const ModelVersion& model) {
    if (!counted || !counted->predictor.Fits(model)) {
      SIMURGH_ASSIGN_OR_RETURN(Predictor predictor, Predictor::Create(model));
      counted.emplace(std::move(predictor), model, registry);
    }
    return &*counted;
  }

  MetricRegistry& registry;
  std::optional<Counted> counted;
};

Scorer::Scorer(const Options& options, MetricRegistry& registry)
    : options_(options),
      batch_rows_(registry.Get(kBatchRows, PowersOfTwo(options.max_batch_rows))),
      late_requests_(registry.Get(kLateRequestsTotal)),
      registry_(registry) {
  for (uint32_t i = 0; i < options.threads; ++i) threads_.emplace_back([this] { Run(); });
}

Scorer::~Scorer() {
  {
    MutexLock lock(mutex_);
    ends_ = true;
  }
  wake_.NotifyAll();
  threads_.clear();
}

std::chrono::nanoseconds Scorer::WaitOf(size_t rows) const {
  if (recent_rows_ == 0) return std::chrono::nanoseconds(0);
  const double seconds = static_cast<double>(rows) * recent_seconds_ / recent_rows_ /
                         static_cast<double>(options_.threads);
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

bool Scorer::Refuses(std::chrono::milliseconds max_wait) {
  MutexLock lock(mutex_);
  if (WaitOf(waiting_rows_) <= max_wait) return false;
  late_requests_.Add();
  return true;
}

void Scorer::Submit(std::shared_ptr<const ModelVersion> version, ScoreRequest request,
                    std::chrono::milliseconds max_wait, Done done) {
  {
    MutexLock lock(mutex_);
    if (WaitOf(waiting_rows_) <= max_wait) {
      const Clock::time_point now = Clock::now();
      waiting_rows_ += request.rows;
      queue_.push_back(
          {std::move(version), std::move(request), now, now + max_wait, std::move(done)});
      // One of several threads that wait for a delay is not enough.
      options_.batch_delay.count() > 0 ? wake_.NotifyAll() : wake_.NotifyOne();
      return;
    }
  }
  late_requests_.Add();
  std::move(done)(absl::ResourceExhaustedError("too many requests wait; try again later"));
}

std::vector<Scorer::Waiting> Scorer::Take() {
  std::vector<Waiting> taken;
  MutexLock lock(mutex_);
  do {
    while (queue_.empty() && !ends_) wake_.Wait(mutex_);
    while (options_.batch_delay.count() > 0 && !queue_.empty() && !ends_ &&
           waiting_rows_ < options_.max_batch_rows &&
           wake_.WaitUntil(mutex_, queue_.front().since + options_.batch_delay)) {
    }
    // Another thread may have taken all during the delay.
  } while (queue_.empty() && !ends_);
  if (queue_.empty()) return taken;
  const ModelVersion* const version = queue_.front().version.get();
  const bool user_vectors = queue_.front().request.user_vectors;
  size_t rows = 0;
  while (!queue_.empty() && queue_.front().version.get() == version &&
         queue_.front().request.user_vectors == user_vectors) {
    const size_t more = queue_.front().request.rows;
    if (!taken.empty() && rows + more > options_.max_batch_rows) break;
    rows += more;
    taken.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  waiting_rows_ -= rows;
  return taken;
}

void Scorer::Run() {
  SetThreadName("scorer");
  Worker worker(registry_);
  for (std::vector<Waiting> taken = Take(); !taken.empty(); taken = Take()) {
    Answer(worker, std::move(taken));
  }
}

void Scorer::Answer(Worker& worker, std::vector<Waiting> taken) {
  const Clock::time_point start = Clock::now();
  std::vector<Waiting> batch;
  std::vector<const ScoreRequest*> requests;
  size_t rows = 0;
  for (Waiting& waiting : taken) {
    if (start > waiting.deadline) {
      late_requests_.Add();
      std::move(waiting.done)(absl::DeadlineExceededError("the request has waited too long"));
      continue;
    }
    rows += waiting.request.rows;
    batch.push_back(std::move(waiting));
  }
  if (batch.empty()) return;
  for (const Waiting& waiting : batch) requests.push_back(&waiting.request);
  std::vector<ScoredRows> scored(batch.size());
  const ModelVersion& model = *batch.front().version;
  StatusOr<Counted*> predictor = worker.For(model);
  const auto score = [&](size_t first, size_t count) -> Status {
    if (!predictor.ok()) return predictor.status();
    try {
      return (*predictor)
          ->Score(model, std::span(requests).subspan(first, count),
                  std::span(scored).subspan(first, count));
    } catch (const std::bad_alloc&) {
      worker.counted.reset();  // The predictor may have rows of the batch.
      predictor = worker.For(model);
      return absl::ResourceExhaustedError("no memory for the request; send fewer rows or ids");
    }
  };
  const Status status = score(0, batch.size());
  batch_rows_.Observe(static_cast<double>(rows));
  for (size_t i = 0; i < batch.size(); ++i) {
    // A request that is too large for a batch must not fail the others.
    const Status own = status.ok() || batch.size() == 1 ? status : score(i, 1);
    std::move(batch[i].done)(own.ok() ? StatusOr<ScoredRows>(std::move(scored[i])) : own);
  }
  // A search for items is part of `done`.
  const std::chrono::nanoseconds took = Clock::now() - start;
  constexpr double kKept = 0.9;  // Weight of earlier batches.
  MutexLock lock(mutex_);
  recent_seconds_ = recent_seconds_ * kKept + std::chrono::duration<double>(took).count();
  recent_rows_ = recent_rows_ * kKept + static_cast<double>(rows);
}

}  // namespace simurgh
