#include "report/history.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "model/model_directory.h"

namespace simurgh {
namespace {

using Json = nlohmann::json;

double NumberOf(const Json& line, const char* key, double missing = TrainingHistory::kUnknown) {
  const auto found = line.find(key);
  if (found == line.end()) return missing;
  return found->is_number() ? found->get<double>() : TrainingHistory::kUnknown;
}

std::map<std::string, double> NumbersOf(const Json& line, const char* key) {
  std::map<std::string, double> numbers;
  const auto found = line.find(key);
  if (found == line.end() || !found->is_object()) return numbers;
  for (const auto& [name, value] : found->items()) {
    if (value.is_number()) numbers[name] = value.get<double>();
  }
  return numbers;
}

std::string TextOf(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : "";
}

// Reads the lines of a history, in order.
class Lines {
 public:
  void Add(const Json& line) {
    const double step_number = NumberOf(line, "step");
    const uint64_t step = step_number >= 0 ? static_cast<uint64_t>(step_number) : 0;
    const std::string event = TextOf(line, "event");
    if (event == "progress") {
      AddProgress(line, step);
    } else if (event == "validation" || event == "test") {
      TrainingHistory::Evaluation one{.step = step, .is_test = event == "test", .metrics = {}};
      for (const auto& [name, value] : line.items()) {
        if (name != "step" && name != "time" && value.is_number()) {
          one.metrics[name] = value.get<double>();
        }
      }
      history_.evaluations.push_back(std::move(one));
    } else if (event == "checkpoint") {
      history_.saves.push_back({.step = step,
                                .seconds = NumberOf(line, "seconds"),
                                .bytes = NumberOf(line, "bytes"),
                                .rows = NumbersOf(line, "rows"),
                                .evicted = NumbersOf(line, "evicted")});
    } else if (event == "start") {
      EndStart();
      history_.end.reset();
    } else if (event == "end") {
      const double best = NumberOf(line, "best_step");
      history_.end = TrainingHistory::End{
          .step = step,
          .reason = TextOf(line, "reason"),
          .best_step = best >= 0 ? std::optional(static_cast<uint64_t>(best)) : std::nullopt};
    }
  }

  TrainingHistory Take() { return std::move(history_); }

 private:
  // The lines of the next start count from 0.
  void EndStart() {
    if (std::isfinite(last_.seconds)) seconds_before_ += last_.seconds;
    if (std::isfinite(last_.samples)) samples_before_ += last_.samples;
    last_.seconds = last_.samples = TrainingHistory::kUnknown;
  }

  // A line lacks what is equal in the line before.
  void AddProgress(const Json& line, uint64_t step) {
    const double seconds = NumberOf(line, "seconds", last_.seconds);
    const double samples = NumberOf(line, "samples", last_.samples);
    // Older histories do not tell when a training starts.
    if (seconds < last_.seconds || samples < last_.samples) EndStart();
    last_.step = step;
    last_.seconds = seconds;
    last_.samples = samples;
    const auto carry = [&](const char* key, double& value) { value = NumberOf(line, key, value); };
    carry("epoch", last_.epoch);
    carry("loss", last_.loss);
    carry("auc", last_.auc);
    carry("rmse", last_.rmse);
    carry("samples_per_s", last_.samples_per_s);
    carry("skipped_steps", last_.skipped_steps);
    carry("waited", last_.waited);
    carry("memory_mib", last_.memory_mib);
    carry("rate", last_.rate);
    if (line.contains("table_rates")) last_.table_rates = NumbersOf(line, "table_rates");
    TrainingHistory::Progress& one = history_.progress.emplace_back(last_);
    one.seconds += seconds_before_;
    one.samples += samples_before_;
  }

  TrainingHistory history_;
  TrainingHistory::Progress last_;  // With the numbers of its start.
  double seconds_before_ = 0;
  double samples_before_ = 0;
};

}  // namespace

double TrainingHistory::Evaluation::loss() const {
  for (const char* const name : {"logloss", "rmse", "loss"}) {
    const auto found = metrics.find(name);
    if (found != metrics.end()) return found->second;
  }
  return kUnknown;
}

std::vector<TrainingHistory::Evaluation> TrainingHistory::EvaluationsOf(bool tests) const {
  std::vector<Evaluation> found;
  std::ranges::copy_if(evaluations, std::back_inserter(found),
                       [&](const Evaluation& one) { return one.is_test == tests; });
  return found;
}

StatusOr<TrainingHistory> ReadHistory(const std::string& model) {
  const StatusOr<std::string> text = ModelDirectory(model).ReadHistory();
  if (absl::IsNotFound(text.status())) return TrainingHistory();
  SIMURGH_RETURN_IF_ERROR(text.status());
  Lines lines;
  std::istringstream file(*text);
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) lines.Add(json);
  }
  return lines.Take();
}

}  // namespace simurgh
