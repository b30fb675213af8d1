#include "services/nn_worker/history.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include <nlohmann/json.hpp>

#include "base/log.h"

namespace simurgh {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFile[] = "history.jsonl";

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Returns a number, or null for NaN and infinities, which JSON does not have.
Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

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

}  // namespace

StatusOr<std::unique_ptr<History>> History::Open(const std::string& directory, uint64_t step) {
  const std::string path = absl::StrCat(directory, "/", kFile);
  SIMURGH_RETURN_IF_ERROR(Keep(path, step));
  std::unique_ptr<History> history(new History(path));
  if (history->file_) return history;
  return absl::UnavailableError(absl::StrCat(path, ": cannot be opened; check the disk"));
}

void History::Add(const TrainObserver::Progress& progress) {
  Json line = {{"event", "progress"},
               {"step", progress.steps},
               {"time", Now()},
               {"samples", progress.samples},
               {"seconds", progress.seconds},
               {"loss", NumberOrNull(progress.loss)}};
  if (std::isfinite(progress.metrics.auc)) line["auc"] = progress.metrics.auc;
  if (std::isfinite(progress.metrics.rmse)) line["rmse"] = progress.metrics.rmse;
  line["samples_per_s"] = NumberOrNull(progress.samples_per_second);
  line["staleness"] = NumberOrNull(progress.staleness);
  line["skipped_steps"] = progress.skipped_steps;
  Write(line.dump());
}

void History::Add(uint64_t step, EvaluationSet set, const EvaluationResult& result) {
  Json line = {{"event", set == EvaluationSet::kTest ? "test" : "validation"},
               {"step", step},
               {"time", Now()},
               {"samples", result.samples}};
  for (const auto& [metric, value] : ReportedMetrics(result)) line[metric] = NumberOrNull(value);
  Write(line.dump());
}

void History::Write(const std::string& line) {
  if (file_ << line << "\n" << std::flush) return;
  if (!std::exchange(has_failed_, true)) spdlog::warn("{}: a line cannot be written", path_);
  file_.clear();
}

}  // namespace simurgh
