#include "simurgh/serve/served_versions.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "simurgh/base/log.h"
#include "simurgh/base/thread.h"

namespace simurgh {
namespace {

constexpr std::chrono::seconds kRetry{10};  // Of a checkpoint that may be usable later.

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Whether the checkpoint itself is the cause.
bool IsPermanent(const Status& status) {
  return absl::IsDataLoss(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status);
}

}  // namespace

ServedVersions::ServedVersions(Options options, MetricRegistry& registry)
    : options_(std::move(options)),
      directory_(options_.model),
      registry_(registry),
      loaded_(registry.GetCounter("simurgh_serve_versions_loaded_total",
                                  "Versions of the model that were loaded.")),
      step_(registry.GetGauge("simurgh_serve_model_step", "Step of the version in use.")),
      step_time_(registry.GetGauge("simurgh_serve_model_time_seconds",
                                   "Unix time at which the step of the version in use ended.")),
      bytes_(registry.GetGauge("simurgh_serve_model_bytes",
                               "Bytes of rows and dense weights of the version in use.")),
      load_seconds_(registry.GetHistogram("simurgh_serve_load_seconds",
                                          "Time to load and check a version.", LatencyBuckets())),
      trained_to_served_seconds_(
          registry.GetHistogram("simurgh_serve_trained_to_served_seconds",
                                "Time from the end of a step to its first answer, of newer "
                                "versions. Uses the clocks of both machines.",
                                LatencyBuckets())),
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

void ServedVersions::NoteAnswer(const ModelVersion& version) {
  uint64_t checksum = version.checksum();
  if (unanswered_.load(std::memory_order_relaxed) != checksum) return;
  if (!unanswered_.compare_exchange_strong(checksum, 0)) return;
  trained_to_served_seconds_.Observe(std::max(0.0, SecondsSince1970() - version.step_time()));
}

std::vector<uint64_t> ServedVersions::Steps() const {
  MutexLock lock(mutex_);
  std::vector<uint64_t> steps;
  for (const auto& version : {previous_, current_}) {
    if (version == nullptr) continue;
    if (steps.empty() || steps.back() != version->step()) steps.push_back(version->step());
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

void ServedVersions::Log(const Status& status) {
  const std::string problem(status.message());
  if (!status.ok() && problem != logged_) {
    spdlog::warn("the model: {}", problem);
    registry_
        .GetCounter("simurgh_serve_versions_refused_total",
                    "Versions of the model that could not be used.",
                    {{"reason", std::string(absl::StatusCodeToString(status.code()))}})
        .Add();
  }
  logged_ = problem;
}

void ServedVersions::Run() {
  SetThreadName("follower");
  bool is_low = false;
  for (;;) {
    if (!is_low && Current() != nullptr) {  // From now on, answers come first.
      LowerPriority();
      is_low = true;
    }
    Status status;
    try {
      status = Follow();
    } catch (const std::bad_alloc&) {
      status = absl::ResourceExhaustedError("no memory to look for another version");
    }
    Log(status);
    const auto next = Clock::now() + options_.poll;
    MutexLock lock(mutex_);
    if (!status.ok()) problem_ = std::string(status.message());
    while (!ends_ && !reload_ && wake_.WaitUntil(mutex_, next)) {
    }
    if (ends_) return;
    if (std::exchange(reload_, false)) refused_.clear();
  }
}

StatusOr<std::optional<Checkpoint>> ServedVersions::FindWanted() {
  SIMURGH_ASSIGN_OR_RETURN(std::optional<uint64_t> step, directory_.PinnedStep());
  std::string version;
  {
    MutexLock lock(mutex_);
    version = version_;
  }
  uint64_t number = 0;
  if (!step && absl::SimpleAtoi(version, &number)) step = number;
  if (!step) {
    SIMURGH_ASSIGN_OR_RETURN(step, directory_.LatestStep());
  }
  if (!step) {
    // Latest() reads much: only to begin.
    if (Current() != nullptr) return std::nullopt;
    SIMURGH_ASSIGN_OR_RETURN(ModelDirectory::Newest newest, directory_.Latest());
    return std::move(newest.checkpoint);
  }
  SIMURGH_ASSIGN_OR_RETURN(Checkpoint checkpoint, directory_.Open(*step));
  const std::shared_ptr<const ModelVersion> current = Current();
  if (current != nullptr && current->checksum() == checkpoint.checksum) return std::nullopt;
  return checkpoint;
}

Status ServedVersions::Follow() {
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<Checkpoint> checkpoint, FindWanted());
  if (!checkpoint) return absl::OkStatus();
  if (auto loaded = Find(checkpoint->manifest.step);
      loaded != nullptr && loaded->checksum() == checkpoint->checksum) {
    Use(std::move(loaded));
    return absl::OkStatus();
  }
  const Clock::time_point start = Clock::now();
  const auto refused = refused_.find(checkpoint->checksum);
  if (refused != refused_.end() && start < refused->second.retry) return refused->second.status;
  StatusOr<std::shared_ptr<const ModelVersion>> version = absl::UnknownError("");
  try {
    version = Load(*checkpoint);
  } catch (const std::bad_alloc&) {
    version = absl::ResourceExhaustedError("no memory to load it");
  }
  if (!version.ok()) {
    if (absl::IsCancelled(version.status())) return absl::OkStatus();
    const Status status(version.status().code(),
                        absl::StrCat("step ", checkpoint->manifest.step,
                                     " is not used: ", std::string(version.status().message())));
    refused_[checkpoint->checksum] = {
        status, IsPermanent(status) ? Clock::time_point::max() : Clock::now() + kRetry};
    return status;
  }
  refused_.clear();
  load_seconds_.Observe(Clock::now() - start);
  const std::shared_ptr<const ModelVersion> current = Current();
  if (current != nullptr && current->step_time() < (*version)->step_time()) {
    unanswered_ = checkpoint->checksum;
  }
  loaded_.Add();
  Use(*std::move(version));
  return absl::OkStatus();
}

StatusOr<std::shared_ptr<const ModelVersion>> ServedVersions::Load(const Checkpoint& checkpoint) {
  const auto load = [&] {
    StatusOr<std::shared_ptr<const ModelVersion>> version = LoadDelta(checkpoint);
    return absl::IsAborted(version.status()) ? LoadWhole(checkpoint) : version;
  };
  StatusOr<std::shared_ptr<const ModelVersion>> version = load();
  if (!absl::IsResourceExhausted(version.status())) return version;
  // Room for the new one. The budget was compared before any row was read.
  std::shared_ptr<const ModelVersion> previous;
  {
    MutexLock lock(mutex_);
    previous = std::move(previous_);
  }
  if (previous == nullptr) return version;
  previous.reset();
  return load();
}

StatusOr<std::shared_ptr<const ModelVersion>> ServedVersions::LoadDelta(
    const Checkpoint& checkpoint) {
  std::vector<Checkpoint> deltas;  // The newest first.
  for (StatusOr<Checkpoint> next = checkpoint; next.ok() && next->manifest.parent;
       next = directory_.Open(deltas.back().manifest.parent->step)) {
    deltas.push_back(*next);
    const Manifest::Parent parent = *next->manifest.parent;
    std::shared_ptr<const ModelVersion> version = Find(parent.step);
    if (version == nullptr || version->checksum() != parent.checksum) continue;
    for (; !deltas.empty(); deltas.pop_back()) {
      SIMURGH_ASSIGN_OR_RETURN(version, version->Next(deltas.back(), BytesLeft()));
    }
    return version;
  }
  return absl::AbortedError("no delta of a loaded version");
}

StatusOr<std::shared_ptr<const ModelVersion>> ServedVersions::LoadWhole(
    const Checkpoint& checkpoint) {
  ModelVersion::Options loading = options_.loading;
  loading.max_bytes = BytesLeft();
  return ModelVersion::Load(checkpoint, loading, [this](uint64_t rows, uint64_t all) -> Status {
    MutexLock lock(mutex_);
    if (current_ == nullptr) problem_ = absl::StrCat("loading: rows=", rows, " of=", all);
    return ends_ ? absl::CancelledError("the server ends") : absl::OkStatus();
  });
}

uint64_t ServedVersions::BytesLeft() const {
  if (options_.memory_budget == 0) return UINT64_MAX;
  MutexLock lock(mutex_);
  uint64_t used = current_ == nullptr ? 0 : current_->bytes();
  if (previous_ != nullptr) used += previous_->bytes(current_.get());
  return options_.memory_budget - std::min(options_.memory_budget, used);
}

void ServedVersions::Use(std::shared_ptr<const ModelVersion> version) {
  spdlog::info("the model: step {} is in use: rows={} bytes={}", version->step(), version->rows(),
               version->bytes());
  step_.Set(static_cast<double>(version->step()));
  step_time_.Set(version->step_time());
  bytes_.Set(static_cast<double>(version->bytes()));
  std::shared_ptr<const ModelVersion> old;  // Freed after the unlock, which takes long.
  {
    MutexLock lock(mutex_);
    old = std::exchange(previous_, std::exchange(current_, std::move(version)));
  }
}

}  // namespace simurgh
