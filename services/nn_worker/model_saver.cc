#include "services/nn_worker/model_saver.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "simurgh/base/log.h"
#include "simurgh/base/mutex.h"
#include "simurgh/config/agreement.h"
#include "simurgh/config/statistics.h"

namespace simurgh {
namespace {

using Clock = SaverEnvironment::Clock;

constexpr std::chrono::milliseconds kPollInterval{50};
constexpr std::chrono::seconds kLogInterval{5};

bool IsRetryable(const Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) || absl::IsDeadlineExceeded(status);
}

// Writes MODEL/best, before the checkpoint that it named may be removed.
Status NameBest(BestCheckpoints& best, ModelDirectory& directory) {
  const std::vector<uint64_t> steps = best.Steps();
  return directory.SetBest(steps.empty() ? std::nullopt : std::optional(steps.front()));
}

}  // namespace

bool SaverEnvironment::SleepUnlessStopped(std::chrono::milliseconds duration,
                                          const std::stop_token& stop) {
  Mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  return !stopped.wait_for(lock, stop, duration, [] { return false; });
}

StatusOr<std::unique_ptr<ModelSaver>> ModelSaver::Open(const ClusterConfig& config,
                                                       const Checkpoint* continued,
                                                       uint64_t new_run, BestCheckpoints& best,
                                                       SaverEnvironment environment) {
  ModelDirectory directory(config.checkpoint.directory, environment.files);
  const StatusOr<std::vector<uint64_t>> steps = directory.Steps();
  if (!steps.ok() && !absl::IsNotFound(steps.status())) return steps.status();
  if (continued == nullptr && steps.ok() && !steps->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoint.directory: '", config.checkpoint.directory, "' has a model of step ",
        steps->back(), " already; continue it with --resume auto, or name another folder"));
  }
  SIMURGH_ASSIGN_OR_RETURN(const uint64_t generation, directory.NewGeneration());
  SIMURGH_ASSIGN_OR_RETURN(
      const uint64_t training,
      directory.KeepRun(TrainingOf(continued == nullptr ? new_run : continued->manifest.run)));
  SIMURGH_RETURN_IF_ERROR(directory.RemoveLeftovers(generation));
  if (continued != nullptr) {
    for (const uint64_t step : *steps) {
      // Later ones are of training that is thrown away, damaged ones stay and do not count.
      const StatusOr<Checkpoint> checkpoint = directory.Open(step);
      if (checkpoint.ok() && step <= continued->manifest.step) best.Add(checkpoint->manifest);
    }
  }
  SIMURGH_RETURN_IF_ERROR(NameBest(best, directory));
  return std::unique_ptr<ModelSaver>(
      new ModelSaver(config, generation, training, best, std::move(environment)));
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
    if (!environment.sleep(kPollInterval, stop)) {
      return absl::CancelledError(absl::StrCat(what, " rows: the nn-worker was stopped"));
    }
  }
}

StatusOr<SaveProgress> ModelSaver::Probe(const SaveRows& save_rows) const {
  return save_rows(
      {.run = run(), .folder = absl::StrCat("generation-", generation_), .probe = true});
}

StatusOr<SavedCheckpoint> ModelSaver::Save(const ModelCopy& model, const ClusterConfig& config,
                                           const SaveRows& save_rows, const OnRows& on_rows,
                                           const std::stop_token& stop) {
  StatusOr<SavedCheckpoint> saved = Write(model, config, save_rows, on_rows, stop);
  if (saved.ok()) return saved;
  // Whatever the error is, another attempt cannot succeed.
  const StatusOr<bool> is_newest = directory_.IsNewest(generation_);
  if (is_newest.ok() && !*is_newest) return absl::CancelledError(saved.status().message());
  return saved;
}

StatusOr<SavedCheckpoint> ModelSaver::Write(const ModelCopy& model, const ClusterConfig& config,
                                            const SaveRows& save_rows, const OnRows& on_rows,
                                            const std::stop_token& stop) {
  const auto begin = environment_.now();
  const uint64_t step = model.state.steps;
  // Servers know a save by its folder: a failed one keeps its name and its error.
  retries_ = last_step_ == step ? retries_ + 1 : 0;
  last_step_ = step;
  SIMURGH_ASSIGN_OR_RETURN(CheckpointAttempt attempt,
                           directory_.Begin(step, generation_, retries_));
  const std::string name = attempt.folder().substr(attempt.folder().rfind('/') + 1);
  // A checkpoint of the same step replaces the last one, and hence cannot continue it.
  const bool is_delta = continued_ && continued_->parent.step < step &&
                        continued_->deltas + 1 < config_.checkpoint.full_every;
  const auto call = [&] {
    return save_rows(
        {.run = run(), .folder = name, .parent = is_delta ? continued_->folder : std::string()});
  };
  // First, since training waits until the servers have noted the rows.
  SIMURGH_ASSIGN_OR_RETURN(SaveProgress rows, AwaitRows("saving", config_.training.retry_deadline,
                                                        call, on_rows, stop, environment_));
  SIMURGH_RETURN_IF_ERROR(
      WriteDense(attempt.folder(), model.dense, model.state.rank_statistics, environment_.files));
  if (!model.probe.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(const std::string path, attempt.Path("probe.csv"));
    SIMURGH_RETURN_IF_ERROR(environment_.files.WriteFile(path, model.probe));
  }
  Manifest manifest{.run = training_,
                    .step_time = model.step_time,
                    .config = {config.settings.begin(), config.settings.end()},
                    .statistics = StatisticsOf(config.data, config.features),
                    .extra = {{"agreement", ModelAgreement(config)},
                              {"yaml", config.source.text},
                              {"yaml.path", config.source.path},
                              {"yaml.overrides", absl::StrJoin(config.source.overrides, "\n")}},
                    .files = std::move(rows.files)};
  if (is_delta) manifest.parent = continued_->parent;
  WriteState(model.state, manifest);
  if (model.evaluation) {
    manifest.metrics["test_auc"] = model.evaluation->auc;
    manifest.metrics["test_logloss"] = model.evaluation->log_loss;
  }
  const StatusOr<Checkpoint> published = attempt.Publish(std::move(manifest));
  if (absl::IsDataLoss(published.status())) {  // Of files: the servers still have the rows.
    return absl::FailedPreconditionError(published.status().message());
  }
  SIMURGH_RETURN_IF_ERROR(published.status());
  continued_ = {.folder = name,
                .parent = {.step = step, .checksum = published->checksum},
                .deltas = is_delta ? continued_->deltas + 1 : 0};
  SavedCheckpoint saved{
      .folder = published->folder, .step = step, .step_time = model.step_time, .rows = rows.rows};
  for (const ModelFile& file : published->manifest.files) saved.bytes += file.bytes;
  const double seconds = std::chrono::duration<double>(environment_.now() - begin).count();
  spdlog::info("saved the model: folder={} rows={} bytes={} seconds={:.2f}", saved.folder,
               saved.rows, saved.bytes, seconds);
  best_.Add(published->manifest);
  SIMURGH_RETURN_IF_ERROR(NameBest(best_, directory_));
  const std::vector<uint64_t> best = best_.Steps();
  SIMURGH_RETURN_IF_ERROR(
      directory_.KeepNewest(config_.checkpoint.keep, {best.begin(), best.end()}));
  return saved;
}

}  // namespace simurgh
