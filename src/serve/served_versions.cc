#include "simurgh/serve/served_versions.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "simurgh/base/log.h"
#include "simurgh/base/thread.h"

namespace simurgh {
namespace {

constexpr char kPin[] = "pin";

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// text: "1200" or "step-1200", perhaps with a line end.
std::optional<uint64_t> StepOf(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  if (text.starts_with("step-")) text.remove_prefix(5);
  uint64_t step = 0;
  if (!absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &step)) return std::nullopt;
  return step;
}

}  // namespace

ServedVersions::ServedVersions(Options options, MetricRegistry& registry)
    : options_(std::move(options)),
      directory_(options_.model),
      loaded_(registry.GetCounter("simurgh_serve_versions_loaded_total",
                                  "Versions of the model that were loaded.")),
      registry_(registry),
      step_(registry.GetGauge("simurgh_serve_model_step", "Step of the version in use.")),
      bytes_(registry.GetGauge("simurgh_serve_model_bytes",
                               "Bytes of rows and dense weights of the version in use.")),
      load_seconds_(registry.GetHistogram("simurgh_serve_load_seconds",
                                          "Time to load and check a version.", LatencyBuckets())),
      trained_to_served_seconds_(registry.GetHistogram(
          "simurgh_serve_trained_to_served_seconds",
          "Time from the end of a step to its use, by the clocks of both machines.",
          LatencyBuckets())),
      age_(registry.GetGauge("simurgh_serve_model_age_seconds",
                             "Time since the step of the version in use ended.")),
      version_(options_.version),
      thread_([this] { Run(); }) {}

ServedVersions::~ServedVersions() {
  {
    MutexLock lock(mutex_);
    ends_ = true;
  }
  wake_.NotifyAll();
}

std::shared_ptr<const ModelVersion> ServedVersions::Current() const {
  MutexLock lock(mutex_);
  return current_;
}

std::shared_ptr<const ModelVersion> ServedVersions::Find(uint64_t step) const {
  MutexLock lock(mutex_);
  for (const auto& version : {current_, previous_}) {
    if (version != nullptr && version->step() == step) return version;
  }
  return nullptr;
}

std::vector<uint64_t> ServedVersions::Steps() const {
  MutexLock lock(mutex_);
  std::vector<uint64_t> steps;
  for (const auto& version : {previous_, current_}) {
    if (version != nullptr) steps.push_back(version->step());
  }
  return steps;
}

std::string ServedVersions::Problem() const {
  std::shared_ptr<const ModelVersion> version;
  {
    MutexLock lock(mutex_);
    if (current_ == nullptr) return problem_;
    version = current_;
  }
  const double age = SecondsSince1970() - version->step_time();
  const double max_age = std::chrono::duration<double>(options_.max_age).count();
  if (max_age == 0 || age <= max_age) return "";
  return absl::StrCat("step ", version->step(), " ended ", std::lround(age),
                      " seconds ago, serving.max_age is ", max_age, "s");
}

void ServedVersions::Reload(std::string version) {
  {
    MutexLock lock(mutex_);
    version_ = std::move(version);
    reload_ = true;
  }
  wake_.NotifyAll();
}

void ServedVersions::Run() {
  SetThreadName("follower");
  for (;;) {
    const Status status = Follow();
    const std::string problem(status.message());
    if (!status.ok() && problem != logged_) spdlog::warn("the model: {}", problem);
    logged_ = problem;
    if (const auto version = Current(); version != nullptr) {
      age_.Set(SecondsSince1970() - version->step_time());
    }
    const auto next = std::chrono::steady_clock::now() + options_.poll;
    MutexLock lock(mutex_);
    if (!status.ok()) problem_ = problem;
    while (!ends_ && !reload_ && wake_.WaitUntil(mutex_, next)) {
    }
    if (ends_) return;
    if (std::exchange(reload_, false)) refused_.clear();
  }
}

StatusOr<Checkpoint> ServedVersions::FindWanted() {
  FileSystem& files = FileSystem::Real();
  constexpr uint64_t kMaxBytes = 4'096;
  const auto read = [&](const std::string& name) -> StatusOr<std::optional<uint64_t>> {
    StatusOr<std::string> text = files.ReadFile(absl::StrCat(options_.model, "/", name), kMaxBytes);
    if (absl::IsNotFound(text.status())) return std::nullopt;
    SIMURGH_RETURN_IF_ERROR(text.status());
    const std::optional<uint64_t> step = StepOf(*text);
    if (step) return step;
    return absl::InvalidArgumentError(
        absl::StrCat(options_.model, "/", name, ": not a step, such as 1200"));
  };
  SIMURGH_ASSIGN_OR_RETURN(std::optional<uint64_t> step, read(kPin));
  std::string version;
  {
    MutexLock lock(mutex_);
    version = version_;
  }
  if (!step) step = StepOf(version);
  if (!step) {
    SIMURGH_ASSIGN_OR_RETURN(step, read(version));
  }
  if (step) return directory_.Open(*step);
  SIMURGH_ASSIGN_OR_RETURN(ModelDirectory::Newest newest, directory_.Latest());
  return std::move(newest.checkpoint);
}

Status ServedVersions::Follow() {
  SIMURGH_ASSIGN_OR_RETURN(const Checkpoint checkpoint, FindWanted());
  const Wanted wanted{checkpoint.manifest.step, checkpoint.checksum};
  for (const auto& version : {Current(), Find(wanted.step)}) {
    if (version == nullptr || version->checksum() != wanted.checksum) continue;
    if (version != Current()) Use(version);
    return absl::OkStatus();
  }
  if (refused_.contains(wanted)) return absl::UnknownError(logged_);
  const auto start = std::chrono::steady_clock::now();
  StatusOr<std::shared_ptr<const ModelVersion>> version = Load(checkpoint);
  if (version.ok()) {
    load_seconds_.Observe(std::chrono::steady_clock::now() - start);
    trained_to_served_seconds_.Observe(std::max(0.0, SecondsSince1970() - (*version)->step_time()));
    loaded_.Add();
    Use(*std::move(version));
    return absl::OkStatus();
  }
  if (absl::IsCancelled(version.status())) return absl::OkStatus();
  registry_
      .GetCounter("simurgh_serve_versions_refused_total",
                  "Versions of the model that could not be used.",
                  {{"reason", std::string(absl::StatusCodeToString(version.status().code()))}})
      .Add();
  refused_.insert(wanted);
  return absl::Status(version.status().code(),
                      absl::StrCat("step ", wanted.step,
                                   " is not used: ", std::string(version.status().message())));
}

StatusOr<std::shared_ptr<const ModelVersion>> ServedVersions::Load(const Checkpoint& checkpoint) {
  // A delta of a loaded version, or of deltas of it.
  std::vector<Checkpoint> deltas;
  for (StatusOr<Checkpoint> next = checkpoint; next.ok() && next->manifest.parent;
       next = directory_.Open(deltas.back().manifest.parent->step)) {
    deltas.push_back(*next);
    const Manifest::Parent parent = *next->manifest.parent;
    std::shared_ptr<const ModelVersion> version = Find(parent.step);
    if (version == nullptr || version->checksum() != parent.checksum) continue;
    Status status;
    for (; status.ok() && !deltas.empty(); deltas.pop_back()) {
      StatusOr<std::shared_ptr<const ModelVersion>> newer = version->Next(deltas.back());
      status = newer.status();
      if (newer.ok()) version = *std::move(newer);
    }
    if (status.ok()) return version;
    if (!absl::IsFailedPrecondition(status)) return status;
    break;
  }
  ModelVersion::Options loading = options_.loading;
  if (options_.memory_budget > 0) {
    const std::shared_ptr<const ModelVersion> current = Current();
    const uint64_t used = current == nullptr ? 0 : current->bytes();
    loading.max_bytes = options_.memory_budget - std::min(options_.memory_budget, used);
    // Room for the new one.
    MutexLock lock(mutex_);
    previous_.reset();
  }
  return ModelVersion::Load(checkpoint, loading, [this](uint64_t rows, uint64_t all) -> Status {
    MutexLock lock(mutex_);
    if (current_ == nullptr) problem_ = absl::StrCat("loading: rows=", rows, " of=", all);
    return ends_ ? absl::CancelledError("the server ends") : absl::OkStatus();
  });
}

void ServedVersions::Use(std::shared_ptr<const ModelVersion> version) {
  spdlog::info("the model: step {} is in use: rows={} bytes={}", version->step(), version->rows(),
               version->bytes());
  step_.Set(static_cast<double>(version->step()));
  bytes_.Set(static_cast<double>(version->bytes()));
  MutexLock lock(mutex_);
  previous_ = std::exchange(current_, std::move(version));
}

}  // namespace simurgh
