#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "base/status.h"
#include "model/model_directory.h"
#include "predict/model_version.h"
#include "predict/remote_rows.h"
#include "telemetry/metrics.h"

namespace simurgh {

// The versions that other processes use, according to their latest calls.
//
// Threads: any.
class VersionUsers {
 public:
  using Clock = std::chrono::steady_clock;
  // expiry: time without a word after which a process counts as gone.
  explicit VersionUsers(std::chrono::milliseconds expiry = std::chrono::seconds(10))
      : expiry_(expiry) {}

  std::chrono::milliseconds expiry() const { return expiry_; }
  // Notes that a process uses these versions, or is about to, and no others. user: a random number.
  void Note(uint64_t user, std::span<const VersionName> versions, Clock::time_point now);
  bool IsUsed(uint64_t checksum, Clock::time_point now) const;
  // Returns all versions that are used, the newest first.
  std::vector<VersionName> Used(Clock::time_point now) const;

 private:
  struct User {
    std::vector<VersionName> versions;
    Clock::time_point seen;
  };
  // Most remembered processes. The one that was silent longest is forgotten.
  static constexpr size_t kMaxUsers = 10'000;

  const std::chrono::milliseconds expiry_;
  mutable Mutex mutex_;
  std::map<uint64_t, User> users_ ABSL_GUARDED_BY(mutex_);
};

// The versions of a model that answer requests. Its thread follows the model's folder: it loads new
// checkpoints beside the version in use, checks them, and then changes over to them at once. The
// version before stays loaded. A checkpoint that cannot be used is logged and counted, and the
// version in use stays.
//
// A checkpoint that is damaged, or whose probe fails, is not tried again before Reload(). Other
// errors, such as a lack of memory, are tried again every 10 s. A version whose mapped rows turn
// out to be damaged is dropped.
//
// MODEL/pin, a file with a step, holds all followers at this step until it is removed.
//
// If servers have the rows (Options::loading.remote), a version is used when all of them have it.
// The wait for them is no error. If the newest one is not on all servers, the newest that is on all
// is used.
//
// A process that has a share of the rows for others (Options::users) loads the versions that they
// ask for, before newer ones, and does not drop one that they use. With two such versions it waits.
// If only the older one is used, the newer one is replaced by one that users ask for, or after a
// while by the newest.
//
// Threads: any.
class ServedVersions {
 public:
  struct Options {
    std::string model;             // The folder.
    std::string version = "best";  // "best", without which it is the newest; "latest"; or a step.
    std::chrono::milliseconds poll{200};
    std::chrono::milliseconds max_age{0};  // Older versions are not ready; 0: any age is.
    uint64_t memory_budget = 0;            // Limit of all versions' rows and of items; 0: none.
    ModelVersion::Options loading;         // max_bytes is not used.
    // The users of the rows; null: this process only. Lifetime: outlives this.
    const VersionUsers* users = nullptr;
  };

  // Lifetime: the registry outlives this.
  ServedVersions(Options options, MetricRegistry& registry);
  ~ServedVersions();
  ServedVersions(const ServedVersions&) = delete;
  ServedVersions& operator=(const ServedVersions&) = delete;

  // Returns the bytes of the budget that the loaded versions and the items leave.
  uint64_t BytesLeft() const;
  // Sets the bytes of items in memory, which count in the budget.
  void SetItemBytes(uint64_t bytes) { item_bytes_ = bytes; }

  // Notes that the version has answered. Cheap.
  void NoteAnswer(const ModelVersion& version);

  // Returns the version in use; null before the first one is loaded.
  std::shared_ptr<const ModelVersion> Current() const;
  // Returns the loaded version of a step; null if there is none.
  std::shared_ptr<const ModelVersion> Find(uint64_t step) const;
  std::shared_ptr<const ModelVersion> FindChecksum(uint64_t checksum) const;
  std::vector<uint64_t> Steps() const;
  // Returns the loaded versions, the newest one in use last.
  std::vector<std::shared_ptr<const ModelVersion>> Loaded() const;
  // Returns the checkpoints that were refused since the version in use was loaded, and why.
  struct Refused {
    uint64_t step = 0;
    std::string reason;
  };
  std::vector<Refused> RefusedVersions() const;
  // Returns why there is no version, none that is new enough, or one whose rows servers lack; empty
  // if ready.
  std::string Problem() const;

  // Replaces Options::version, looks for it now, and tries one again that was refused.
  void Reload(std::string version);

 private:
  using Clock = std::chrono::steady_clock;

  // A checkpoint that was not used.
  struct Refusal {
    Status status;
    Clock::time_point retry;
  };

  void Run();
  Status Follow();
  // Errors: DATA_LOSS if mapped rows of a loaded version are damaged; it is dropped.
  Status DropDamaged();
  // Returns the step that the configuration or the file `pin` asks for; none: the newest.
  StatusOr<std::optional<uint64_t>> FixedStep();
  // Returns the step of the best or newest checkpoint, as the version says; none without one.
  StatusOr<std::optional<uint64_t>> FollowedStep();
  // Returns the newest checkpoint that users ask for and that is not loaded, if there is one.
  std::optional<Checkpoint> FindUsed();
  // Returns the checkpoint that the folder asks for; none if that is the version in use.
  StatusOr<std::optional<Checkpoint>> FindWanted();
  // Returns the checkpoint that all servers of rows have, of `wanted`, which may be none, and older
  // ones; none if that is the version in use, or while they do not have it. Tells the servers.
  // Errors: those of RemoteRows.
  StatusOr<std::optional<Checkpoint>> OnAllServers(std::optional<Checkpoint> wanted);
  // Returns whether a loaded version may make room for another one. Drops one if that is needed.
  bool MayLoad(const Checkpoint& checkpoint);
  StatusOr<std::shared_ptr<const ModelVersion>> Load(const Checkpoint& checkpoint);
  StatusOr<std::shared_ptr<const ModelVersion>> LoadDelta(const Checkpoint& checkpoint);
  StatusOr<std::shared_ptr<const ModelVersion>> LoadWhole(const Checkpoint& checkpoint);
  void Use(std::shared_ptr<const ModelVersion> version);
  void Log(const Status& status);

  const Options options_;
  ModelDirectory directory_;
  MetricRegistry& registry_;
  Counter& loaded_;
  Gauge& step_;
  Gauge& step_time_;
  Histogram& trained_to_served_seconds_;
  std::atomic<uint64_t> unanswered_ = 0;  // Checksum of a version without an answer; 0: none.
  std::atomic<uint64_t> item_bytes_ = 0;
  mutable Mutex mutex_;
  CondVar wake_;
  std::shared_ptr<const ModelVersion> current_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const ModelVersion> previous_ ABSL_GUARDED_BY(mutex_);
  std::string problem_ ABSL_GUARDED_BY(mutex_) = "the model is being loaded";
  std::string rows_problem_ ABSL_GUARDED_BY(mutex_);  // Why servers lack rows of current_.
  Clock::time_point current_since_;                   // Used by the thread only.
  // Versions in the last answers of all servers. Used by the thread only.
  std::vector<VersionName> on_all_servers_;
  // The checkpoint that servers are asked for, and since when. Used by the thread only.
  std::optional<Checkpoint> target_;
  Clock::time_point target_since_;
  uint64_t waiting_ = 0;  // Checkpoint whose wait has been logged. Used by the thread only.
  std::string version_ ABSL_GUARDED_BY(mutex_);
  bool reload_ ABSL_GUARDED_BY(mutex_) = false;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_damage_ = false;              // Mapped rows were damaged. Used by the thread only.
  std::map<uint64_t, Refusal> refused_;  // Keys: checksums of checkpoints. Used by the thread only.
  std::vector<Refused> refused_versions_ ABSL_GUARDED_BY(mutex_);  // The versions of refused_.
  std::string logged_;  // The last problem. Used by the thread only.
  std::jthread thread_;
};

// Returns a checkpoint of a model, held: see Checkpoint::Hold(). version: as of ServedVersions.
// Errors: INVALID_ARGUMENT for another version; those of ModelDirectory::FindHeld().
StatusOr<ModelDirectory::Newest> FindVersion(const std::string& model, const std::string& version);

}  // namespace simurgh
