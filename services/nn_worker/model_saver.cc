#include "services/nn_worker/model_saver.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "base/log.h"
#include "base/mutex.h"
#include "config/cluster_config.h"
#include "config/statistics.h"
#include "model/row_files.h"
#include "services/nn_worker/network_description.h"
#include "train/dense_weights.h"

namespace simurgh {

std::optional<double> BestCheckpoints::ScoreOf(double value) const {
  const double score = simurgh::ScoreOf(metric_, value);
  return std::isnan(score) ? std::nullopt : std::optional(score);
}

std::optional<double> BestCheckpoints::ScoreOf(const TrainState& state) const {
  if (!enabled() || !state.validation) return std::nullopt;
  return ScoreOf(ValueOf(*state.validation, metric_));
}

bool BestCheckpoints::Admits(const TrainState& state) {
  const std::optional<double> score = ScoreOf(state);
  if (!score) return false;
  MutexLock lock(mutex_);
  return best_.size() < count_ || *score > best_.back().score;
}

std::optional<uint64_t> BestCheckpoints::BestWith(const TrainState& state) {
  const std::optional<double> score = ScoreOf(state);
  MutexLock lock(mutex_);
  if (score && (best_.empty() || *score > best_.front().score)) return state.steps;
  return best_.empty() ? std::nullopt : std::optional(best_.front().step);
}

void BestCheckpoints::Add(const Manifest& manifest) {
  MutexLock lock(mutex_);
  // The new checkpoint may replace one of the same step.
  std::erase_if(best_, [&](const Scored& one) { return one.step == manifest.step; });
  const auto value = manifest.metrics.find(absl::StrCat("validation_", ReportedName(metric_)));
  if (value == manifest.metrics.end()) return;
  const std::optional<double> score = ScoreOf(value->second);
  if (!score) return;
  const auto worse = std::ranges::find_if(best_, [&](const Scored& one) {
    return one.score < *score || (one.score == *score && one.step > manifest.step);
  });
  best_.insert(worse, {*score, manifest.step});
  if (best_.size() > count_) best_.pop_back();
}

std::vector<uint64_t> BestCheckpoints::Steps() {
  MutexLock lock(mutex_);
  std::vector<uint64_t> steps;
  for (const Scored& one : best_) steps.push_back(one.step);
  return steps;
}

namespace {

using Clock = SaverEnvironment::Clock;

constexpr std::chrono::milliseconds kPollPause{50};
constexpr std::chrono::seconds kLogInterval{5};

bool IsRetryable(const Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) || absl::IsDeadlineExceeded(status);
}

// Returns an error that is not retried: a newer start has taken over, so no attempt can succeed.
Status NoRetry(const Status& superseded) { return absl::CancelledError(superseded.message()); }

// Writes MODEL/best, before the checkpoint that it named may be removed.
Status NameBest(BestCheckpoints& best, ModelDirectory& directory, uint64_t generation) {
  const std::vector<uint64_t> steps = best.Steps();
  return directory.SetBest(steps.empty() ? std::nullopt : std::optional(steps.front()), generation);
}

// Returns the steps of the checkpoints; none for a folder that does not exist.
StatusOr<std::vector<uint64_t>> StepsIn(ModelDirectory& directory) {
  StatusOr<std::vector<uint64_t>> steps = directory.Steps();
  if (absl::IsNotFound(steps.status())) return std::vector<uint64_t>();
  return steps;
}

// Checks that the newest checkpoint is the one that was found before this start took its
// generation. Errors: ABORTED.
Status CheckStillNewest(ModelDirectory& directory, const Checkpoint* continued) {
  const StatusOr<ModelDirectory::Newest> newest = directory.Latest();
  if (!newest.ok() && !absl::IsNotFound(newest.status())) return newest.status();
  const bool same = newest.ok() == (continued != nullptr) &&
                    (!newest.ok() || newest->checkpoint.checksum == continued->checksum);
  if (same) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      directory.path(), ": another start of this training has saved ",
      newest.ok() ? newest->checkpoint.folder : "nothing",
      " while this one looked for the newest checkpoint; start again to continue from it"));
}

}  // namespace

StatusOr<std::unique_ptr<ModelSaver>> ModelSaver::Open(
    const ClusterConfig& config, const Checkpoint* continued, bool takes_newest, uint64_t new_run,
    BestCheckpoints& best, SaverEnvironment environment, bool is_update) {
  const std::string& folder = config.checkpoint.directory;
  ModelDirectory directory(folder, FileSystem::For(folder, environment.files));
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> steps, StepsIn(directory));
  if (continued == nullptr && !steps.empty() && !takes_newest) {
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoint.directory: '", config.checkpoint.directory, "' has a model of step ",
        steps.back(), " already; continue it with --resume auto, or name another folder"));
  }
  SIMURGH_ASSIGN_OR_RETURN(const uint64_t generation, directory.NewGeneration());
  SIMURGH_RETURN_IF_ERROR(directory.RemoveLeftovers(generation));
  SIMURGH_ASSIGN_OR_RETURN(
      const uint64_t training,
      directory.KeepRun(TrainingOf(continued == nullptr ? new_run : continued->manifest.run),
                        generation));
  if (takes_newest) SIMURGH_RETURN_IF_ERROR(CheckStillNewest(directory, continued));
  if (continued != nullptr) {
    // Later ones belong to training that is thrown away; damaged ones stay and do not count.
    std::vector<Manifest> known;
    for (const uint64_t step : steps) {
      const StatusOr<Checkpoint> checkpoint = directory.Open(step);
      if (checkpoint.ok() && step <= continued->manifest.step)
        known.push_back(checkpoint->manifest);
    }
    for (const Manifest& one : known) {
      const bool is_thrown_away = std::ranges::any_of(known, [&](const Manifest& other) {
        return other.generation > one.generation && other.step < one.step;
      });
      // Evaluations before an update say nothing about the updated model.
      if (!is_thrown_away && HaveSameUpdate(one, continued->manifest)) best.Add(one);
    }
  }
  if (!is_update) SIMURGH_RETURN_IF_ERROR(NameBest(best, directory, generation));
  std::unique_ptr<ModelSaver> saver(new ModelSaver(config, std::move(directory), generation,
                                                   RunNumber(generation, training), best,
                                                   std::move(environment)));
  if (continued != nullptr) saver->before_ = continued->manifest;
  return saver;
}

StatusOr<std::unique_ptr<ModelSaver>> ModelSaver::To(const std::string& path) const {
  ModelDirectory directory(path, FileSystem::For(path, environment_.files));
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> steps, StepsIn(directory));
  if (!steps.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--directory: '", path, "' has a model of step ",
                                                   steps.back(), " already; name another folder"));
  }
  // Continues the generations of this folder, so that servers that stay up admit the next start of
  // this training.
  SIMURGH_ASSIGN_OR_RETURN(const uint64_t generation, directory.NewGeneration(generation_ - 1));
  SIMURGH_RETURN_IF_ERROR(directory.RemoveLeftovers(generation));
  SIMURGH_RETURN_IF_ERROR(directory.KeepRun(TrainingOf(run_), generation).status());
  auto best = std::make_unique<BestCheckpoints>(config_.checkpoint);
  std::unique_ptr<ModelSaver> saver(
      new ModelSaver(config_, std::move(directory), generation, run_, *best, environment_));
  saver->own_best_ = std::move(best);
  saver->before_ = before_;
  return saver;
}

StatusOr<SaveProgress> AwaitRows(const char* what, std::chrono::milliseconds retry_deadline,
                                 const std::function<StatusOr<SaveProgress>()>& call,
                                 const OnRows& on_rows, const std::stop_token& stop,
                                 const SaverEnvironment& environment) {
  std::optional<Clock::time_point> failing_since;
  auto logged = environment.now();
  while (true) {
    StatusOr<SaveProgress> progress = call();
    const auto now = environment.now();
    if (progress.ok()) {
      failing_since.reset();
      if (on_rows) on_rows(*progress);
      if (progress->done) return progress;
      if (now - logged > kLogInterval) {
        logged = now;
        spdlog::info("{} rows: rows={} of={}", what, progress->rows, progress->all_rows);
      }
    } else {
      if (!failing_since) failing_since = now;
      if (!IsRetryable(progress.status()) || now - *failing_since > retry_deadline) {
        return progress.status();
      }
      if (now == *failing_since || now - logged > kLogInterval) {
        logged = now;
        spdlog::warn("{} rows: {}; retrying", what, std::string(progress.status().message()));
      }
    }
    if (!environment.sleep(kPollPause, stop)) {
      return absl::CancelledError(absl::StrCat(what, " rows: the nn-worker was stopped"));
    }
  }
}

Status ModelSaver::CheckNewest() {
  const StatusOr<uint64_t> newest = directory_.HighestGeneration();
  if (!newest.ok() || *newest <= generation_) return absl::OkStatus();
  return SupersededError(RunNumber(*newest, run_));
}

StatusOr<SaveProgress> ModelSaver::Probe(const SaveRows& save_rows) const {
  return save_rows(
      {.run = run(), .folder = absl::StrCat("generation-", generation_), .probe = true});
}

Status ModelSaver::CheckContinued() {
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint last, directory_.Open(continued_->parent.step));
  if (last.checksum != continued_->parent.checksum) {
    return absl::DataLossError(last.folder + "/manifest.json: the file has changed");
  }
  return last.Chain().status();
}

Manifest ModelSaver::ManifestOf(const ModelCopy& model, const ClusterConfig& config) const {
  Manifest manifest{.run = TrainingOf(run_), .step_time = static_cast<int64_t>(model.step_time)};
  if (model.update) {  // An update leaves the rest of the manifest as it was.
    manifest.config = before_->config;
    manifest.statistics = before_->statistics;
    manifest.extra = before_->extra;
    manifest.position = before_->position;
    manifest.samples = model.state.samples;
    manifest.extra["train.skipped_steps"] = absl::StrCat(model.state.skipped_steps);
    KeepCapacities(config, manifest);
    WriteCalibrations(model.state.calibrations, manifest);
    WriteUpdate(*model.update, manifest);
  } else {
    manifest.config = {config.settings.begin(), config.settings.end()};
    manifest.statistics = StatisticsOf(config.data, config.features);
    manifest.extra = {{"agreement", ModelAgreement(config)},
                      {"network", DescribeNetwork(config)},
                      {"yaml", config.source.text},
                      {"yaml.path", config.source.path},
                      {"yaml.overrides", absl::StrJoin(config.source.overrides, "\n")}};
    if (before_) CopyUpdate(*before_, manifest);
    WriteState(model.state, manifest);
  }
  manifest.extra["step_time"] = absl::StrFormat("%.3f", model.step_time);
  if (model.dense.program) WriteProgram(*model.dense.program, manifest);
  if (model.evaluation) {
    for (const auto& [metric, value] : ReportedMetrics(*model.evaluation)) {
      manifest.metrics["test_" + metric] = value;
    }
  }
  return manifest;
}

Status ModelSaver::CleanUp(const ModelCopy& model) {
  const std::vector<uint64_t> best = best_.Steps();
  std::set<uint64_t> except(best.begin(), best.end());
  if (!model.update || model.update->is_done) {
    SIMURGH_RETURN_IF_ERROR(NameBest(best_, directory_, generation_));
  } else {
    // The best checkpoint serves predictions until the update is done.
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> named, directory_.BestStep());
    if (named) except.insert(*named);
  }
  if (model.update) except.insert(before_->step);  // Kept to return to.
  return directory_.KeepNewest(config_.checkpoint.keep, except, generation_);
}

StatusOr<SavedCheckpoint> ModelSaver::Save(const ModelCopy& model, const ClusterConfig& config,
                                           const SaveRows& save_rows, const OnRows& on_rows,
                                           const std::stop_token& stop) {
  const auto begin = environment_.now();
  const uint64_t step = model.state.steps;
  // Servers identify a save by its folder: a failed one keeps its name and its error.
  retries_ = last_step_ == step ? retries_ + 1 : 0;
  last_step_ = step;
  SIMURGH_ASSIGN_OR_RETURN(CheckpointAttempt attempt,
                           directory_.Begin(step, generation_, retries_));
  const std::string name = attempt.folder().substr(attempt.folder().rfind('/') + 1);
  // A checkpoint of the same step replaces the last one, and hence cannot continue it.
  bool is_delta = continued_ && continued_->parent.step < step &&
                  continued_->deltas + 1 < config_.checkpoint.full_every;
  if (is_delta) {
    const Status there = CheckContinued();
    is_delta = there.ok();
    if (!is_delta) spdlog::warn("{}; saving all rows", std::string(there.message()));
  }
  const std::vector<float>& statistics = model.state.rank_statistics;
  FileSystem& files = directory_.files();
  SIMURGH_ASSIGN_OR_RETURN(const uint64_t free, files.FreeBytes(directory_.path()));
  const uint64_t own = DenseFiles::BytesOf(model.dense, statistics) + model.probe.size();
  uint64_t needed = own;
  std::optional<DenseFiles> dense;
  std::unique_ptr<File> probe;
  // Sets `dense` last: then everything is reserved. After an error, another call continues.
  const auto reserve = [&]() -> Status {
    if (!model.probe.empty()) {
      if (probe == nullptr) {
        SIMURGH_ASSIGN_OR_RETURN(const std::string path, attempt.Path("probe.csv"));
        SIMURGH_ASSIGN_OR_RETURN(probe, files.Create(path));
      }
      SIMURGH_RETURN_IF_ERROR(probe->Allocate(model.probe.size()));
    }
    SIMURGH_ASSIGN_OR_RETURN(dense,
                             DenseFiles::Create(attempt.folder(), model.dense, statistics, files));
    return absl::OkStatus();
  };
  const auto call = [&]() -> StatusOr<SaveProgress> {
    SIMURGH_ASSIGN_OR_RETURN(
        SaveProgress rows,
        save_rows({.run = run(),
                   .folder = name,
                   .parent = is_delta ? continued_->folder : std::string(),
                   .directory = own_best_ == nullptr ? std::string() : directory_.path(),
                   .continues = dense.has_value()}));
    if (dense) return rows;
    // The servers begin first, since training waits until they have noted the rows.
    needed = own + rows.bytes;
    SIMURGH_RETURN_IF_ERROR(reserve());
    return rows;
  };
  StatusOr<SaveProgress> saved_rows =
      AwaitRows("saving", config_.training.retry_deadline, call, on_rows, stop, environment_);
  if (absl::IsResourceExhausted(saved_rows.status()) && needed > free) {
    return DiskFullError(directory_.path(), absl::StrCat("the checkpoint of step ", step), needed,
                         free);
  }
  SIMURGH_ASSIGN_OR_RETURN(SaveProgress rows, std::move(saved_rows));
  SIMURGH_RETURN_IF_ERROR(dense->Write(model.dense, statistics));
  if (probe != nullptr) {
    SIMURGH_RETURN_IF_ERROR(probe->Write(0, std::as_bytes(std::span(model.probe))));
    SIMURGH_RETURN_IF_ERROR(probe->Sync());
    probe.reset();
  }
  Manifest manifest = ManifestOf(model, config);
  manifest.files = std::move(rows.files);
  if (is_delta) manifest.parent = continued_->parent;
  const StatusOr<Checkpoint> published = attempt.Publish(std::move(manifest));
  if (absl::IsFailedPrecondition(published.status())) return NoRetry(published.status());
  if (absl::IsDataLoss(
          published.status())) {  // Files are damaged: the servers still have the rows.
    return absl::FailedPreconditionError(published.status().message());
  }
  SIMURGH_RETURN_IF_ERROR(published.status());
  continued_ = {.folder = name,
                .parent = {.step = step, .checksum = published->checksum},
                .deltas = is_delta ? continued_->deltas + 1 : 0};
  SavedCheckpoint saved{
      .folder = published->folder, .step = step, .step_time = model.step_time, .rows = rows.rows};
  for (const ModelFile& file : published->manifest.files) saved.bytes += file.bytes;
  if (auto counted = CountRows(*published); counted.ok()) saved.table_rows = *std::move(counted);
  for (size_t t = 0; t < std::min(rows.evicted.size(), config_.tables.size()); ++t) {
    if (rows.evicted[t] > 0) saved.evicted[config_.tables[t].name] = rows.evicted[t];
  }
  const double seconds = std::chrono::duration<double>(environment_.now() - begin).count();
  spdlog::info("saved the model: folder={} rows={} bytes={} seconds={:.2f}", saved.folder,
               saved.rows, saved.bytes, seconds);
  best_.Add(published->manifest);
  const Status cleaned = CleanUp(model);
  if (absl::IsFailedPrecondition(cleaned)) return NoRetry(cleaned);
  SIMURGH_RETURN_IF_ERROR(cleaned);
  return saved;
}

}  // namespace simurgh
