#include "services/nn_worker/model_saver.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "services/nn_worker/resume.h"
#include "simurgh/base/log.h"
#include "simurgh/base/mutex.h"
#include "simurgh/config/agreement.h"
#include "simurgh/config/statistics.h"

namespace simurgh {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPollInterval{50};
constexpr std::chrono::seconds kLogInterval{5};

bool IsRetryable(const Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) || absl::IsDeadlineExceeded(status);
}

// Returns false after a stop.
bool Sleep(std::chrono::milliseconds duration, const std::stop_token& stop) {
  Mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  return !stopped.wait_for(lock, stop, duration, [] { return false; });
}

}  // namespace

StatusOr<std::unique_ptr<ModelSaver>> ModelSaver::Open(const ClusterConfig& config,
                                                       const Checkpoint* continued,
                                                       uint64_t new_run) {
  ModelDirectory directory(config.checkpoint.directory);
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
  return std::unique_ptr<ModelSaver>(new ModelSaver(config, generation, training));
}

StatusOr<SaveProgress> AwaitRows(const char* what, std::chrono::milliseconds retry_deadline,
                                 const std::function<StatusOr<SaveProgress>()>& call,
                                 const std::stop_token& stop) {
  std::optional<Clock::time_point> failing_since;
  auto logged = Clock::now();
  while (true) {
    StatusOr<SaveProgress> progress = call();
    const auto now = Clock::now();
    if (progress.ok()) {
      failing_since.reset();
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
    if (!Sleep(kPollInterval, stop)) {
      return absl::CancelledError(absl::StrCat(what, " rows: the nn-worker was stopped"));
    }
  }
}

Status ModelSaver::CheckServers(const SaveRows& save_rows, const std::stop_token& stop) {
  const SaveRowsCall call{
      .run = run(), .folder = absl::StrCat("generation-", generation_), .probe = true};
  return AwaitRows(
             "saving", config_.training.retry_deadline, [&] { return save_rows(call); }, stop)
      .status();
}

Status ModelSaver::Save(const TrainState& state, const std::optional<EvaluationResult>& evaluation,
                        const ClusterConfig& config, DenseNetwork& network,
                        const std::string& probe, const SaveRows& save_rows,
                        const std::stop_token& stop) {
  const auto begin = Clock::now();
  SIMURGH_ASSIGN_OR_RETURN(CheckpointAttempt attempt, directory_.Begin(state.steps, generation_));
  SIMURGH_RETURN_IF_ERROR(WriteDense(attempt.folder(), network, state));
  if (!probe.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(const std::string path, attempt.Path("probe.csv"));
    SIMURGH_RETURN_IF_ERROR(FileSystem::Real().WriteFile(path, probe));
  }
  const std::string folder = attempt.folder().substr(attempt.folder().rfind('/') + 1);
  SIMURGH_ASSIGN_OR_RETURN(SaveProgress rows,
                           AwaitRows(
                               "saving", config_.training.retry_deadline,
                               [&] { return save_rows({.run = run(), .folder = folder}); }, stop));
  Manifest manifest{
      .run = training_,
      .step_time = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()),
      .config = {config.settings.begin(), config.settings.end()},
      .statistics = StatisticsOf(config.data, config.features),
      .extra = {{"agreement", ModelAgreement(config)},
                {"yaml", config.source.text},
                {"yaml.path", config.source.path},
                {"yaml.overrides", absl::StrJoin(config.source.overrides, "\n")}},
      .files = std::move(rows.files)};
  WriteState(state, manifest);
  if (evaluation) {
    manifest.metrics["test_auc"] = evaluation->auc;
    manifest.metrics["test_logloss"] = evaluation->log_loss;
  }
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint saved, attempt.Publish(std::move(manifest)));
  uint64_t bytes = 0;
  for (const ModelFile& file : saved.manifest.files) bytes += file.bytes;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  spdlog::info("saved the model: folder={} rows={} bytes={} seconds={:.2f}", saved.folder,
               rows.rows, bytes, seconds);
  return directory_.KeepNewest(config_.checkpoint.keep, {});
}

}  // namespace simurgh
