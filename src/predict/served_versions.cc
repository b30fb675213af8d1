#include "predict/served_versions.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <new>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/step_id.h"
#include "base/thread.h"
#include "config/uri.h"

namespace simurgh {
namespace {

const CounterFamily kVersionsLoadedTotal("simurgh_serve_versions_loaded_total",
                                         "Versions of the model that were loaded.");
const GaugeFamily kModelStep("simurgh_serve_model_step", "Step of the version in use.");
const GaugeFamily kModelTimeSeconds("simurgh_serve_model_time_seconds",
                                    "Unix time at which the step of the version in use ended.");
const HistogramFamily kTrainedToServedSeconds(
    "simurgh_serve_trained_to_served_seconds",
    "Time from the end of a step to its first answer, by the clocks of "
    "both machines.");
const CounterFamily kVersionsRefusedTotal("simurgh_serve_versions_refused_total",
                                          "Versions of the model that could not be used.",
                                          {"reason"});

}  // namespace

void VersionUsers::Note(uint64_t user, std::span<const VersionName> versions,
                        Clock::time_point now) {
  MutexLock lock(mutex_);
  std::erase_if(users_, [&](const auto& one) { return one.second.seen + expiry_ < now; });
  if (users_.size() >= kMaxUsers && !users_.contains(user)) {
    users_.erase(
        std::ranges::min_element(users_, {}, [](const auto& one) { return one.second.seen; }));
  }
  users_[user] = {{versions.begin(), versions.end()}, now};
}

bool VersionUsers::IsUsed(uint64_t checksum, Clock::time_point now) const {
  const std::vector<VersionName> used = Used(now);
  return std::ranges::find(used, checksum, &VersionName::checksum) != used.end();
}

std::vector<VersionName> VersionUsers::Used(Clock::time_point now) const {
  std::vector<VersionName> used;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, user] : users_) {
      if (user.seen + expiry_ < now) continue;
      used.insert(used.end(), user.versions.begin(), user.versions.end());
    }
  }
  std::ranges::sort(used, std::greater(), &VersionName::step);
  return used;
}

namespace {

// Pause before a checkpoint that may be usable later is tried again.
constexpr std::chrono::seconds kRetry{10};
// Time for which servers of rows are asked for the same checkpoint.
constexpr std::chrono::seconds kTargetTime{10};
// Time that servers usually need to load it; shorter waits are not logged.
constexpr std::chrono::seconds kUsualWait{5};
// Longest pause between calls to servers of rows; well below the expiry of VersionUsers.
constexpr std::chrono::milliseconds kLongestRemotePoll{3'000};

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Returns whether the checkpoint itself is the cause.
bool IsPermanent(const Status& status) {
  return absl::IsDataLoss(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status);
}

VersionName NameOf(const Checkpoint& checkpoint) {
  return {checkpoint.manifest.step, checkpoint.checksum, TrainingOf(checkpoint.manifest.run)};
}

// Returns whether the cause is a server of rows, which may answer later.
bool IsOfServers(const Status& status) {
  return absl::IsUnavailable(status) || absl::IsNotFound(status);
}

}  // namespace

ServedVersions::ServedVersions(Options options, MetricRegistry& registry)
    : options_(std::move(options)),
      directory_(options_.model),
      registry_(registry),
      loaded_(registry.Get(kVersionsLoadedTotal)),
      step_(registry.Get(kModelStep)),
      step_time_(registry.Get(kModelTimeSeconds)),
      trained_to_served_seconds_(registry.Get(kTrainedToServedSeconds, LatencyBuckets())),
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

std::shared_ptr<const ModelVersion> ServedVersions::FindChecksum(uint64_t checksum) const {
  MutexLock lock(mutex_);
  for (const auto& version : {current_, previous_}) {
    if (version != nullptr && version->checksum() == checksum) return version;
  }
  return nullptr;
}

std::vector<uint64_t> ServedVersions::Steps() const {
  std::vector<uint64_t> steps;
  for (const auto& version : Loaded()) {
    if (steps.empty() || steps.back() != version->step()) steps.push_back(version->step());
  }
  return steps;
}

std::vector<std::shared_ptr<const ModelVersion>> ServedVersions::Loaded() const {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<const ModelVersion>> loaded;
  for (const auto& version : {previous_, current_}) {
    if (version != nullptr) loaded.push_back(version);
  }
  return loaded;
}

std::vector<ServedVersions::Refused> ServedVersions::RefusedVersions() const {
  MutexLock lock(mutex_);
  return refused_versions_;
}

std::string ServedVersions::Problem() const {
  std::shared_ptr<const ModelVersion> version;
  {
    MutexLock lock(mutex_);
    if (current_ == nullptr) return problem_;
    if (!rows_problem_.empty()) return rows_problem_;
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
    // A wait is no refusal. The count comes before the log line, which readers take as a sign.
    if (!absl::IsUnavailable(status)) {
      registry_.Get(kVersionsRefusedTotal, {std::string(absl::StatusCodeToString(status.code()))})
          .Add();
    }
    spdlog::warn("the model: {}", problem);
  }
  logged_ = problem;
}

void ServedVersions::Run() {
  SetThreadName("follower");
  const std::chrono::milliseconds poll = options_.loading.remote == nullptr
                                             ? options_.poll
                                             : std::min(options_.poll, kLongestRemotePoll);
  bool is_low = false;
  for (;;) {
    if (!is_low && Current() != nullptr) {  // A first version is in use: answers come first now.
      LowerPriority();
      is_low = true;
    }
    Status status;
    try {
      status = Follow();
    } catch (const std::bad_alloc&) {
      status = absl::ResourceExhaustedError("no memory to look for another version");
    }
    if (!status.ok()) {
      MutexLock lock(mutex_);
      problem_ = std::string(status.message());
    }
    Log(status);
    const auto next = Clock::now() + poll;
    MutexLock lock(mutex_);
    while (!ends_ && !reload_ && wake_.WaitUntil(mutex_, next)) {
    }
    if (ends_) return;
    if (std::exchange(reload_, false)) {
      refused_.clear();
      refused_versions_.clear();
    }
  }
}

StatusOr<std::optional<uint64_t>> ServedVersions::FixedStep() {
  SIMURGH_ASSIGN_OR_RETURN(std::optional<uint64_t> step, directory_.PinnedStep());
  std::string version;
  {
    MutexLock lock(mutex_);
    version = version_;
  }
  uint64_t number = 0;
  if (!step && absl::SimpleAtoi(version, &number)) step = number;
  return step;
}

StatusOr<std::optional<uint64_t>> ServedVersions::FollowedStep() {
  bool wants_best = false;
  {
    MutexLock lock(mutex_);
    wants_best = version_ == "best";
  }
  if (!wants_best) return directory_.LatestStep();
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> best, directory_.BestStep());
  // A copy of a model may lack its best checkpoint.
  if (best && !absl::IsNotFound(directory_.Open(*best).status())) return best;
  return directory_.LatestStep();
}

std::optional<Checkpoint> ServedVersions::FindUsed() {
  if (options_.users == nullptr) return std::nullopt;
  for (const VersionName& name : options_.users->Used(Clock::now())) {
    if (FindChecksum(name.checksum) != nullptr || refused_.contains(name.checksum)) continue;
    StatusOr<Checkpoint> checkpoint = directory_.Open(name.step);
    if (checkpoint.ok() && NameOf(*checkpoint) == name) return *std::move(checkpoint);
  }
  return std::nullopt;
}

StatusOr<std::optional<Checkpoint>> ServedVersions::FindWanted() {
  SIMURGH_ASSIGN_OR_RETURN(std::optional<uint64_t> step, FixedStep());
  if (!step) {
    if (std::optional<Checkpoint> used = FindUsed()) return used;
    SIMURGH_ASSIGN_OR_RETURN(step, FollowedStep());
  }
  if (!step) {
    // Latest() reads much, so it is used only for the first version.
    if (Current() != nullptr) return std::nullopt;
    SIMURGH_ASSIGN_OR_RETURN(ModelDirectory::Newest newest, directory_.Latest());
    return std::move(newest.checkpoint);
  }
  SIMURGH_ASSIGN_OR_RETURN(Checkpoint checkpoint, directory_.Open(*step));
  const std::shared_ptr<const ModelVersion> current = Current();
  if (current != nullptr && current->checksum() == checkpoint.checksum) return std::nullopt;
  return checkpoint;
}

StatusOr<std::optional<Checkpoint>> ServedVersions::OnAllServers(std::optional<Checkpoint> wanted) {
  RemoteRows& rows = *options_.loading.remote;
  const std::shared_ptr<const ModelVersion> current = Current();
  const auto has = [](const std::vector<VersionName>& names, const VersionName& name) {
    return std::ranges::find(names, name) != names.end();
  };
  // Tells servers the version in use, and `next`, which is about to be used.
  const auto use = [&](const std::optional<Checkpoint>& next) {
    std::vector<VersionName> names;
    // A version that a server no longer has is left out, so that all servers can go on.
    if (current != nullptr && has(on_all_servers_, current->name())) {
      names.push_back(current->name());
    }
    if (next) names.push_back(NameOf(*next));
    return rows.Use(names);
  };
  const StatusOr<std::optional<uint64_t>> step = FixedStep();
  const bool fixed = !step.ok() || step->has_value();
  // Servers that load one checkpoint must not be asked for the next one meanwhile.
  const bool keeps = !fixed && wanted && target_ && !refused_.contains(target_->checksum) &&
                     (current == nullptr || target_->manifest.step > current->step()) &&
                     Clock::now() < target_since_ + kTargetTime;
  if (!keeps) {
    target_ = wanted;
    target_since_ = Clock::now();
  } else {
    const StatusOr<Checkpoint> again = directory_.Open(target_->manifest.step);
    if (again.ok() && again->checksum == target_->checksum) wanted = target_;
  }
  StatusOr<std::vector<VersionName>> common = use(wanted);
  if (!common.ok()) {
    MutexLock lock(mutex_);
    rows_problem_ = std::string(common.status().message());
    return common.status();
  }
  on_all_servers_ = *common;
  {
    const std::string problem =
        current == nullptr || has(*common, current->name()) ? "" : rows.WhoLacks(current->name());
    MutexLock lock(mutex_);
    // The text may tell progress.
    if (rows_problem_.empty() && !problem.empty()) spdlog::warn("the model: {}", problem);
    if (!rows_problem_.empty() && problem.empty() && current != nullptr) {
      spdlog::info("the model: all servers of rows have step {}", current->step());
    }
    rows_problem_ = problem;
  }
  if (!wanted) return std::nullopt;
  if (has(*common, NameOf(*wanted))) return wanted;
  // Trainers may save faster than the slowest server loads.
  std::vector<VersionName> others = *std::move(common);
  std::ranges::sort(others, std::greater(), &VersionName::step);
  for (const VersionName& name : others) {
    if (fixed || (current != nullptr && name.step <= current->step())) break;
    StatusOr<Checkpoint> older = directory_.Open(name.step);
    if (!older.ok() || NameOf(*older) != name) continue;
    SIMURGH_ASSIGN_OR_RETURN(const std::vector<VersionName> after, use(*older));
    if (has(after, name)) return *std::move(older);
  }
  const std::string waits = rows.WhoLacks(NameOf(*wanted));
  {
    MutexLock lock(mutex_);
    problem_ = waits;
  }
  // Servers usually need a moment.
  const bool is_late = current == nullptr || Clock::now() > target_since_ + kUsualWait;
  if (is_late && std::exchange(waiting_, wanted->checksum) != wanted->checksum) {
    spdlog::warn("the model: {}", waits);
  }
  return std::nullopt;
}

bool ServedVersions::MayLoad(const Checkpoint& checkpoint) {
  if (options_.users == nullptr) return true;
  const Clock::time_point now = Clock::now();
  std::shared_ptr<const ModelVersion> dropped;  // Freed after the unlock, which takes long.
  MutexLock lock(mutex_);
  if (previous_ == nullptr || !options_.users->IsUsed(previous_->checksum(), now)) return true;
  if (options_.users->IsUsed(current_->checksum(), now)) return false;
  // Users may soon ask for it.
  if (!options_.users->IsUsed(checkpoint.checksum, now) &&
      now < current_since_ + options_.users->expiry()) {
    return false;
  }
  dropped = std::exchange(current_, std::move(previous_));
  return true;
}

Status ServedVersions::DropDamaged() {
  Status damage;
  std::vector<std::shared_ptr<const ModelVersion>> dropped;  // Freed after the unlock.
  MutexLock lock(mutex_);
  for (auto* const version : {&previous_, &current_}) {
    if (*version == nullptr || (*version)->damage().ok()) continue;
    damage = absl::DataLossError(
        absl::StrCat("step ", (*version)->step(),
                     " is not used any more: ", std::string((*version)->damage().message())));
    refused_[(*version)->checksum()] = {damage, Clock::time_point::max()};
    problem_ = std::string(damage.message());
    refused_versions_.push_back({(*version)->step(), problem_});
    dropped.push_back(std::exchange(*version, nullptr));
  }
  if (current_ == nullptr) current_ = std::move(previous_);
  has_damage_ = has_damage_ || !damage.ok();
  return damage;
}

Status ServedVersions::Follow() {
  SIMURGH_RETURN_IF_ERROR(DropDamaged());
  StatusOr<std::optional<Checkpoint>> wanted = FindWanted();
  const bool is_remote = options_.loading.remote != nullptr;
  if (is_remote) {
    // Even without the model's folder, servers must keep what is in use.
    StatusOr<std::optional<Checkpoint>> usable = OnAllServers(wanted.ok() ? *wanted : std::nullopt);
    if (wanted.ok()) wanted = std::move(usable);
  }
  SIMURGH_RETURN_IF_ERROR(wanted.status());
  const std::optional<Checkpoint>& checkpoint = *wanted;
  if (!checkpoint) return absl::OkStatus();
  if (auto loaded = Find(checkpoint->manifest.step);
      loaded != nullptr && loaded->checksum() == checkpoint->checksum) {
    Use(std::move(loaded));
    return absl::OkStatus();
  }
  const Clock::time_point start = Clock::now();
  const auto refused = refused_.find(checkpoint->checksum);
  if (refused != refused_.end() && start < refused->second.retry) return refused->second.status;
  if (!MayLoad(*checkpoint)) {
    if (std::exchange(waiting_, checkpoint->checksum) != checkpoint->checksum) {
      spdlog::info("the model: step {} waits until clients use newer rows than now",
                   checkpoint->manifest.step);
    }
    return absl::OkStatus();
  }
  StatusOr<std::shared_ptr<const ModelVersion>> version = absl::UnknownError("");
  try {
    version = Load(*checkpoint);
  } catch (const std::bad_alloc&) {
    version = absl::ResourceExhaustedError("no memory to load it");
  }
  if (!version.ok()) {
    if (absl::IsCancelled(version.status())) return absl::OkStatus();
    if (is_remote && IsOfServers(version.status())) {
      return absl::UnavailableError(version.status().message());
    }
    const Status status(version.status().code(),
                        absl::StrCat("step ", checkpoint->manifest.step,
                                     " is not used: ", std::string(version.status().message())));
    refused_[checkpoint->checksum] = {
        status, IsPermanent(status) ? Clock::time_point::max() : Clock::now() + kRetry};
    MutexLock lock(mutex_);
    std::erase_if(refused_versions_,
                  [&](const Refused& one) { return one.step == checkpoint->manifest.step; });
    problem_ = std::string(status.message());
    refused_versions_.push_back({checkpoint->manifest.step, problem_});
    return status;
  }
  refused_.clear();
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
  // Makes room for the new version. The budget was compared before any row was read.
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
  std::vector<Checkpoint> deltas;  // In order, the newest first.
  for (StatusOr<Checkpoint> next = checkpoint; next.ok() && next->manifest.parent;
       next = directory_.Open(deltas.back().manifest.parent->step)) {
    deltas.push_back(*next);
    const Manifest::Parent parent = *next->manifest.parent;
    std::shared_ptr<const ModelVersion> version = Find(parent.step);
    if (version == nullptr || version->checksum() != parent.checksum) continue;
    for (; !deltas.empty(); deltas.pop_back()) {
      SIMURGH_ASSIGN_OR_RETURN(
          version, version->Next(deltas.back(), BytesLeft(), /*checks_probe=*/deltas.size() == 1));
    }
    return version;
  }
  return absl::AbortedError("no delta of a loaded version");
}

StatusOr<std::shared_ptr<const ModelVersion>> ServedVersions::LoadWhole(
    const Checkpoint& checkpoint) {
  ModelVersion::Options loading = options_.loading;
  loading.max_bytes = BytesLeft();
  loading.checks_mapped_first = has_damage_;
  const auto report = [this](uint64_t rows, uint64_t all) -> Status {
    MutexLock lock(mutex_);
    if (current_ == nullptr) problem_ = absl::StrCat("loading: rows=", rows, " of=", all);
    return ends_ ? absl::CancelledError("the server ends") : absl::OkStatus();
  };
  // The new version fits the predictors of `before`, which keep their hot rows.
  const std::shared_ptr<const ModelVersion> before =
      loading.remote == nullptr ? nullptr : Current();
  return ModelVersion::Load(checkpoint, loading, report, before.get());
}

uint64_t ServedVersions::BytesLeft() const {
  if (options_.memory_budget == 0) return UINT64_MAX;
  MutexLock lock(mutex_);
  uint64_t used = item_bytes_ + (current_ == nullptr ? 0 : current_->bytes());
  if (previous_ != nullptr) used += previous_->bytes(current_.get());
  return options_.memory_budget - std::min(options_.memory_budget, used);
}

void ServedVersions::Use(std::shared_ptr<const ModelVersion> version) {
  if (RemoteRows* const rows = options_.loading.remote.get(); rows != nullptr) {
    rows->SetCurrent(version->checksum());
    on_all_servers_.push_back(version->name());
  }
  current_since_ = Clock::now();
  std::shared_ptr<const ModelVersion> old;  // Freed after the unlock, which takes long.
  {
    MutexLock lock(mutex_);
    old = std::exchange(previous_, std::exchange(current_, version));
    if (refused_.empty()) refused_versions_.clear();
  }
  // Metrics follow the change, since readers take them as a sign.
  step_.Set(static_cast<double>(version->step()));
  step_time_.Set(version->step_time());
  spdlog::info("the model: step {} is in use: rows={} bytes={}", version->step(), version->rows(),
               version->bytes());
}

StatusOr<ModelDirectory::Newest> FindVersion(const std::string& model, const std::string& version) {
  return ModelDirectory::FindHeld([&]() -> StatusOr<ModelDirectory::Newest> {
    if (version == "best") return ModelDirectory::FindBest(model);
    if (version == "latest") return ModelDirectory::Find(model);
    uint64_t step = 0;
    if (!absl::SimpleAtoi(version, &step)) {
      return absl::InvalidArgumentError(
          absl::StrCat("version: '", version, "' is neither \"best\", \"latest\" nor a step"));
    }
    return ModelDirectory::Find(absl::StrCat(AbsoluteFolder(model), "/step-", step));
  });
}

}  // namespace simurgh
