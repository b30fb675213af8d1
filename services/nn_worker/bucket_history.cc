#include "services/nn_worker/bucket_history.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/thread.h"

namespace simurgh {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Json> Parsed(std::string_view text) {
  std::vector<Json> lines;
  for (const absl::string_view line : absl::StrSplit(std::string(text), '\n', absl::SkipEmpty())) {
    Json json = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) lines.push_back(std::move(json));
  }
  return lines;
}

bool IsProgress(const Json& line) {
  const auto event = line.find("event");
  return event != line.end() && *event == "progress";
}

}  // namespace

std::string LinesUpTo(std::string_view text, uint64_t step) {
  std::string kept;
  for (const Json& line : Parsed(text)) {
    const auto found = line.find("step");
    const bool is_later =
        found != line.end() && found->is_number() && found->get<double>() > double(step);
    if (!is_later) absl::StrAppend(&kept, line.dump(), "\n");
  }
  return kept;
}

std::string ThinnedLines(std::string_view text) {
  std::string kept;
  Json rates = Json::object();  // Rates of the removed line.
  bool removes = true;
  for (Json& line : Parsed(text)) {
    if (IsProgress(line)) {
      if (removes) {
        for (const char* const key : {"rate", "table_rates"}) {
          if (line.contains(key)) rates[key] = line[key];
        }
        removes = false;
        continue;
      }
      for (const auto& [key, value] : rates.items()) {
        if (!line.contains(key)) line[key] = value;
      }
      rates = Json::object();
      removes = true;
    }
    absl::StrAppend(&kept, line.dump(), "\n");
  }
  return kept;
}

StatusOr<std::unique_ptr<BucketHistory>> BucketHistory::Open(const ModelDirectory& directory,
                                                             uint64_t step, uint64_t generation) {
  ModelDirectory model = directory;
  StatusOr<std::string> text = model.ReadHistory();
  if (absl::IsNotFound(text.status())) text = "";
  SIMURGH_RETURN_IF_ERROR(text.status());
  return std::unique_ptr<BucketHistory>(
      new BucketHistory(directory, generation, LinesUpTo(*text, step)));
}

BucketHistory::BucketHistory(const ModelDirectory& directory, uint64_t generation, std::string text)
    : directory_(directory),
      generation_(generation),
      text_(std::move(text)),
      thread_([this] { Run(); }) {}

BucketHistory::~BucketHistory() {
  const MutexLock lock(mutex_);
  ends_ = true;
  changed_.NotifyAll();
}

void BucketHistory::Add(std::string_view line) {
  const MutexLock lock(mutex_);
  absl::StrAppend(&text_, std::string(line), "\n");
  if (text_.size() > most_bytes_) {
    text_ = ThinnedLines(text_);
    most_bytes_ = std::max(kMostBytes, 2 * text_.size());  // Other lines are not thinned.
  }
  is_new_ = true;
}

void BucketHistory::Write() {
  const MutexLock lock(mutex_);
  is_wanted_ = true;
  changed_.NotifyAll();
}

void BucketHistory::Run() {
  SetThreadName("history");
  bool has_failed = false;
  for (;;) {
    std::string text;
    {
      MutexLock lock(mutex_);
      while (!is_wanted_ && !ends_) changed_.Wait(mutex_);
      if (!is_new_ && ends_) return;
      is_wanted_ = false;
      is_new_ = false;
      text = text_;
    }
    const Status written = directory_.WriteHistory(text, generation_);
    if (written.ok()) continue;
    {
      const MutexLock lock(mutex_);
      is_new_ = !ends_;
    }
    if (std::exchange(has_failed, true)) continue;
    spdlog::warn("history.jsonl is not written: {}", std::string(written.message()));
  }
}

}  // namespace simurgh
