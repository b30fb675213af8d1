#include "services/nn_worker/history.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/version.h"
#include "config/uri.h"
#include "table/memory_budget.h"

namespace simurgh {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFile[] = "history.jsonl";

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Returns a number, or null for NaN and infinities, which JSON does not have.
Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

// Returns the number that a float stands for, such as 0.05, in six digits.
double Shortest(float value) {
  double number = value;
  return absl::SimpleAtod(absl::StrCat(value), &number) ? number : double{value};
}

// Copies the lines of steps up to `step`. A line that was cut off, as by a crash, is left out.
Status Keep(const std::string& path, uint64_t step) {
  std::ifstream old(path);
  if (!old) return absl::OkStatus();
  const std::string fresh = path + ".new";
  std::ofstream kept(fresh, std::ios::trunc);
  for (std::string line; std::getline(old, line);) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.value("step", uint64_t{0}) <= step) kept << line << "\n";
  }
  kept.close();
  std::error_code error;
  if (kept) std::filesystem::rename(fresh, path, error);
  if (kept && !error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path, ": cannot be written; check the disk"));
}

// Adds the numbers of a line as scalars: "validation/auc", "progress/table_rates.site".
void AddScalars(const Json& json, const std::string& tag, uint64_t step, double time,
                EventFile& events) {
  for (const auto& [key, value] : json.items()) {
    const std::string own = absl::StrCat(tag, tag.find('/') == std::string::npos ? "/" : ".", key);
    if (value.is_number()) events.AddScalar(step, time, own, value.get<double>());
    if (value.is_object()) AddScalars(value, own, step, time, events);
  }
}

}  // namespace

StatusOr<std::unique_ptr<History>> History::Open(const ClusterConfig& config, uint64_t step,
                                                 uint64_t generation, RatesAt rates) {
  const std::string& folder = config.checkpoint.directory;
  const bool is_file = !folder.empty() && !IsUri(folder);
  const std::string path = is_file ? absl::StrCat(folder, "/", kFile) : "";
  if (!path.empty()) SIMURGH_RETURN_IF_ERROR(Keep(path, step));
  std::unique_ptr<History> history(
      new History(path, std::move(rates), LabelColumns(config.data).size()));
  if (IsUri(folder)) {
    SIMURGH_ASSIGN_OR_RETURN(history->in_bucket_,
                             BucketHistory::Open(ModelDirectory(folder), step, generation));
  }
  const std::string& events = config.training.tensorboard;
  {
    const MutexLock lock(history->mutex_);
    if (!path.empty()) history->file_.open(path, std::ios::app);
    if (!history->file_) {
      return absl::UnavailableError(absl::StrCat(path, ": cannot be opened; check the disk"));
    }
    if (!events.empty()) {
      auto created = EventFile::Create(events, step);
      if (!created.ok()) return Annotate(created.status(), "training.tensorboard");
      history->events_ = *std::move(created);
      history->events_->AddText(step, Now(), "configuration",
                                absl::StrCat("```yaml\n", config.source.text, "\n```"));
      history->wants_sample_ = true;
    }
  }
  history->Write("start", step,
                 {{"version", Version()}, {"ranks", config.nn_worker.instances.size()}});
  return history;
}

void History::Add(const TrainObserver::Progress& progress) {
  const RowNumber& next = progress.data.next;
  Json line = {{"epoch", next.row == 0 && next.epoch > 0 ? next.epoch : next.epoch + 1},
               {"samples", progress.samples},
               {"seconds", progress.seconds},
               {"loss", NumberOrNull(progress.loss)}};
  if (std::isfinite(progress.metrics.auc)) line["auc"] = progress.metrics.auc;
  if (std::isfinite(progress.metrics.rmse)) line["rmse"] = progress.metrics.rmse;
  line["samples_per_s"] = NumberOrNull(progress.samples_per_second);
  line["waited"] = NumberOrNull(progress.waited);
  line["staleness"] = NumberOrNull(progress.staleness);
  line["skipped_steps"] = progress.skipped_steps;
  constexpr uint64_t kMib = 1 << 20;
  line["memory_mib"] = ResidentBytes() / kMib;
  Rates rates = rates_(progress.steps);
  if (!last_rates_ || rates.dense != last_rates_->dense) {
    line["rate"] = Shortest(rates.dense);
  }
  if (!last_rates_ || rates.tables != last_rates_->tables) {
    for (const auto& [table, rate] : rates.tables) line["table_rates"][table] = Shortest(rate);
  }
  last_rates_ = std::move(rates);
  Write("progress", progress.steps, line);
  const MutexLock lock(mutex_);
  wants_sample_ = events_ != nullptr;
}

void History::Add(uint64_t step, EvaluationSet set, const EvaluationResult& result) {
  Json line = {{"samples", result.samples}};
  for (const auto& [metric, value] : ReportedMetrics(result)) line[metric] = NumberOrNull(value);
  Write(set == EvaluationSet::kTest ? "test" : "validation", step, line);
  Show();
}

void History::Add(const SavedCheckpoint& saved, double seconds) {
  Json line = {{"seconds", seconds}, {"bytes", saved.bytes}, {"rows", Json(saved.table_rows)}};
  if (!saved.evicted.empty()) line["evicted"] = Json(saved.evicted);
  Write("checkpoint", saved.step, line);
  Show();
}

void History::Add(const TrainResult& result, uint64_t max_steps) {
  const char* const reason = result.interrupted                           ? "stopped"
                             : result.stopped_early                       ? "early_stopping"
                             : max_steps > 0 && result.steps >= max_steps ? "max_steps"
                                                                          : "epochs";
  Json line = {{"reason", reason}, {"samples", result.samples}, {"seconds", result.seconds}};
  if (result.best_step) line["best_step"] = *result.best_step;
  Write("end", result.steps, line);
  Show();
}

void History::Add(const TrainObserver::Sample& sample) {
  const double time = Now();
  const MutexLock lock(mutex_);
  wants_sample_ = false;
  if (events_ == nullptr) return;
  std::vector<float> predictions;
  for (size_t i = 0; i < sample.predictions.size(); i += labels_) {
    predictions.push_back(sample.predictions[i]);
  }
  events_->AddHistogram(sample.step, time, "predictions", predictions);
  for (const FeatureNorms& one : sample.norms) {
    events_->AddHistogram(sample.step, time, absl::StrCat("embedding_norms/", one.feature),
                          one.norms);
  }
}

void History::Write(const char* event, uint64_t step, const Json& rest) {
  const double time = Now();
  Json line = {{"event", event}, {"step", step}, {"time", time}};
  line.update(rest);
  const MutexLock lock(mutex_);
  if (in_bucket_ != nullptr) in_bucket_->Add(line.dump());
  if (!path_.empty() && !(file_ << line.dump() << "\n" << std::flush)) {
    Warn(absl::UnavailableError(path_ + ": a line cannot be written"));
    file_.clear();
  }
  if (events_ == nullptr) return;
  AddScalars(rest, event, step, time, *events_);
  const Status written = events_->Flush();
  if (!written.ok()) Warn(written);
}

void History::Warn(const Status& status) {
  if (!std::exchange(has_failed_, true)) spdlog::warn("{}", std::string(status.message()));
}

}  // namespace simurgh
