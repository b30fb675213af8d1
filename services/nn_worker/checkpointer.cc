#include "services/nn_worker/checkpointer.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/thread.h"
#include "config/uri.h"
#include "services/api/peer_clients.h"
#include "services/api/reply.h"

namespace simurgh {
namespace {

const GaugeFamily kCheckpointTimeSeconds("simurgh_nn_checkpoint_time_seconds",
                                         "Unix time of the newest checkpoint's step.");
const GaugeFamily kCheckpointStep("simurgh_nn_checkpoint_step", "Step of the newest checkpoint.");
const GaugeFamily kCheckpointSeconds("simurgh_nn_checkpoint_seconds",
                                     "Duration of the last complete save.");
const GaugeFamily kCheckpointRows("simurgh_nn_checkpoint_rows", "Rows of the newest checkpoint.");
const CounterFamily kCheckpointFailuresTotal("simurgh_nn_checkpoint_failures_total",
                                             "Checkpoints that could not be saved.");
const CounterFamily kCheckpointSkippedTotal(
    "simurgh_nn_checkpoint_skipped_total",
    "Intervals of checkpoint.every without a checkpoint, since a save took longer.");
const GaugeFamily kCheckpointEverySeconds("simurgh_nn_checkpoint_every_seconds",
                                          "checkpoint.every, if it is set.");

// Interval of calls that keep the run alive on the servers, while a failed save waits for a
// request.
constexpr std::chrono::seconds kKeepAlive{1};

// Longest wait of one call; the next one reports the progress.
constexpr std::chrono::seconds kPatience{1};
constexpr std::chrono::milliseconds kPollInterval{20};

rpc::Outgoing<api::SaveCheckpoint::Response> Encode(uint64_t request,
                                                    const Checkpointer::Answer& answer) {
  flatbuffers::FlatBufferBuilder builder;
  const auto folder = builder.CreateString(answer.saved.folder);
  const auto root = api::wire::CreateSaveCheckpointResponse(
      builder, request, answer.done, folder, answer.done ? answer.saved.rows : answer.rows,
      answer.all_rows, answer.saved.bytes);
  return {builder, root};
}

std::string LinkIn(const std::string& directory) { return directory + "/token"; }

void RemoveLink(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_symlink(path, ignored)) std::filesystem::remove(path, ignored);
}

}  // namespace

Checkpointer::Checkpointer(const CheckpointConfig& config, BestCheckpoints& best, Prepare prepare,
                           Load load, MetricRegistry& registry, OnSaved on_saved)
    : best_(best),
      prepare_(std::move(prepare)),
      load_(std::move(load)),
      on_saved_(std::move(on_saved)),
      time_(registry.Get(kCheckpointTimeSeconds)),
      step_(registry.Get(kCheckpointStep)),
      seconds_(registry.Get(kCheckpointSeconds)),
      rows_(registry.Get(kCheckpointRows)),
      failures_(registry.Get(kCheckpointFailuresTotal)),
      skipped_(registry.Get(kCheckpointSkippedTotal)),
      schedule_(config, Clock::now()) {
  if (config.every.count() == 0) return;
  registry.Get(kCheckpointEverySeconds).Set(std::chrono::duration<double>(config.every).count());
}

Checkpointer::~Checkpointer() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void Checkpointer::SetNewest(uint64_t step, double step_time) {
  step_.Set(static_cast<double>(step));
  time_.Set(step_time);
  MutexLock lock(mutex_);
  schedule_.SetNewest(step);
}

bool Checkpointer::IsDue(uint64_t step, bool evaluates) {
  MutexLock lock(mutex_);
  const uint64_t skipped = schedule_.skipped();
  const bool due = schedule_.IsDue(step, Clock::now());
  skipped_.Add(schedule_.skipped() - skipped);
  return due || (evaluates && best_.enabled());
}

bool Checkpointer::IsWanted(const TrainState& state) {
  {
    MutexLock lock(mutex_);
    if (schedule_.IsAnnounced(state.steps)) return true;
  }
  return best_.Admits(state);
}

std::optional<uint64_t> Checkpointer::BestStep(const TrainState& state) {
  return best_.BestWith(state);
}

uint64_t Checkpointer::newest() {
  MutexLock lock(mutex_);
  return schedule_.newest();
}

bool Checkpointer::Await(bool (CheckpointSchedule::*is_so)() const,
                         std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  MutexLock lock(mutex_);
  while (!(schedule_.*is_so)()) {
    if (!changed_.WaitUntil(mutex_, deadline)) return (schedule_.*is_so)();
  }
  return true;
}

Status Checkpointer::failure() {
  MutexLock lock(mutex_);
  return schedule_.failure();
}

void Checkpointer::Begin(const TrainState& state) { Start(prepare_(state), state.steps); }

void Checkpointer::Start(Work work, std::optional<uint64_t> mark) {
  {
    MutexLock lock(mutex_);
    schedule_.BeginSave(mark);
    progress_ = {};
  }
  Launch([this, work = std::move(work), at_mark = mark.has_value()] { Run(work, at_mark); });
}

void Checkpointer::BeginLoad(uint64_t step) {
  {
    MutexLock lock(mutex_);
    schedule_.BeginLoad();
  }
  Launch([this, step] {
    const Status loaded = load_(step, stop_.get_token());
    MutexLock lock(mutex_);
    schedule_.OnLoaded(loaded);
    changed_.NotifyAll();
  });
}

void Checkpointer::Launch(std::function<void()> task) {
  if (thread_.joinable()) thread_.join();
  thread_ = std::thread([task = std::move(task)] {
    SetThreadName("checkpoint");
    task();
  });
}

void Checkpointer::Run(const Work& work, bool at_mark) {
  const auto begin = Clock::now();
  const auto on_rows = [&](const SaveProgress& progress) {
    MutexLock lock(mutex_);
    schedule_.OnRows();
    progress_.rows = progress.rows;
    progress_.all_rows = progress.all_rows;
    changed_.NotifyAll();
  };
  StatusOr<SavedCheckpoint> saved = work(on_rows, stop_.get_token());
  if (saved.ok()) {
    NoteSaved(*saved, std::chrono::duration<double>(Clock::now() - begin).count());
  } else {
    failures_.Add();
  }
  MutexLock lock(mutex_);
  last_ = saved;
  if (saved.ok()) {
    schedule_.OnSaved(saved->step);
  } else {
    schedule_.OnSaveFailed(saved.status());
    if (at_mark && schedule_.failure().ok()) {
      spdlog::error("{}; training continues", std::string(saved.status().message()));
    }
  }
  changed_.NotifyAll();
}

void Checkpointer::NoteSaved(const SavedCheckpoint& saved, double seconds) {
  step_.Set(static_cast<double>(saved.step));
  time_.Set(saved.step_time);
  seconds_.Set(seconds);
  rows_.Set(static_cast<double>(saved.rows));
  if (on_saved_) on_saved_(saved, seconds);
}

Status Checkpointer::SaveLast(const std::function<Work(const std::string& directory)>& work,
                              const std::function<Status()>& keep_alive,
                              const std::stop_token& stop) {
  std::string directory;
  const std::stop_callback waker(stop, [this] {
    MutexLock lock(mutex_);
    changed_.NotifyAll();
  });
  Refuse(absl::OkStatus());
  while (true) {
    while (!AwaitIdle(kKeepAlive)) continue;
    Start(work(directory), std::nullopt);
    while (!AwaitIdle(kKeepAlive)) continue;
    Status status;
    bool repeats = false;
    {
      MutexLock lock(mutex_);
      status = last_.status();
      repeats = schedule_.RepeatsAfter(status);
    }
    if (!repeats || !keep_alive || stop.stop_requested()) return status;
    spdlog::error(
        "{}; training has ended, and the servers keep the rows: remove the cause, then run "
        "`simurgh checkpoint CONFIG`. To save to another folder, run `simurgh checkpoint CONFIG "
        "--directory FOLDER`. Or stop this program, without the model",
        std::string(status.message()));
    {
      MutexLock lock(mutex_);
      last_failed_ = true;
    }
    const Status asked = AwaitRequest(keep_alive, stop);
    if (!asked.ok()) return absl::IsCancelled(asked) ? status : asked;
    MutexLock lock(mutex_);
    directory = std::exchange(directory_, {});
  }
}

Status Checkpointer::AwaitRequest(const std::function<Status()>& keep_alive,
                                  const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    SIMURGH_RETURN_IF_ERROR(keep_alive());
    MutexLock lock(mutex_);
    if (!schedule_.has_request()) changed_.WaitUntil(mutex_, Clock::now() + kKeepAlive);
    if (schedule_.has_request()) return absl::OkStatus();
  }
  return absl::CancelledError("the program was stopped");
}

void Checkpointer::Refuse(Status reason) {
  MutexLock lock(mutex_);
  refusal_ = std::move(reason);
}

StatusOr<uint64_t> Checkpointer::Request(std::string directory) {
  MutexLock lock(mutex_);
  if (!refusal_.ok()) return refusal_;
  if (!directory.empty() && !last_failed_) {
    return absl::FailedPreconditionError(
        "--directory: training continues, and saves to checkpoint.directory; use it once the "
        "save of the end has failed");
  }
  if (!directory.empty() && !directory.starts_with('/')) {
    return absl::InvalidArgumentError(
        absl::StrCat("--directory: '", directory, "' is not absolute; begin it with /"));
  }
  if (!directory.empty()) directory_ = std::move(directory);
  changed_.NotifyAll();
  return schedule_.Request();
}

StatusOr<Checkpointer::Answer> Checkpointer::Ask(uint64_t request) {
  MutexLock lock(mutex_);
  if (!schedule_.IsRequest(request)) {
    return absl::OutOfRangeError(
        "training was started anew after the request for a checkpoint; ask again");
  }
  Answer answer{.done = schedule_.IsAnswered(request)};
  if (answer.done) {
    SIMURGH_ASSIGN_OR_RETURN(answer.saved, last_);
    return answer;
  }
  if (!refusal_.ok()) return refusal_;
  if (!schedule_.is_idle()) {
    answer.rows = progress_.rows;
    answer.all_rows = progress_.all_rows;
  }
  return answer;
}

void CheckpointService::Register(rpc::Server& server) {
  rpc::Register(server, api::kSaveCheckpoint,
                [this](auto request) { return OnSave(std::move(request)); });
}

Reply<api::SaveCheckpoint> CheckpointService::OnSave(
    rpc::RequestOf<api::SaveCheckpoint::Request> request) {
  if (checkpointer_ == nullptr) {
    co_return absl::FailedPreconditionError(
        "the training has no checkpoint.directory; start it again with one");
  }
  uint64_t number = request.table().request();
  if (number == 0) {
    const auto* const directory = request.table().directory();
    SIMURGH_CO_ASSIGN_OR_RETURN(
        number, checkpointer_->Request(directory == nullptr ? "" : directory->str()));
    spdlog::info("checkpoint requested: request={}", number);
    co_return Encode(number, {});
  }
  const auto until = std::min(api::AnswerBefore(request.deadline()), rpc::Clock::now() + kPatience);
  rpc::asio::steady_timer timer(co_await rpc::asio::this_coro::executor);
  while (true) {
    SIMURGH_CO_ASSIGN_OR_RETURN(const Checkpointer::Answer answer, checkpointer_->Ask(number));
    if (answer.done || rpc::Clock::now() >= until) co_return Encode(number, answer);
    timer.expires_after(kPollInterval);
    co_await timer.async_wait(rpc::kNoThrow);
  }
}

TokenLink::TokenLink(const ClusterConfig& config) : path_(LinkIn(config.checkpoint.directory)) {
  if (IsUri(path_)) return;
  RemoveLink(path_);
  if (config.rpc.token_file.empty()) return;
  std::error_code ignored;
  std::filesystem::create_symlink(std::filesystem::absolute(config.rpc.token_file, ignored), path_,
                                  ignored);
}

TokenLink::~TokenLink() {
  if (!IsUri(path_)) RemoveLink(path_);
}

std::optional<std::string> FindTokenLink(const std::string& directory) {
  if (directory.empty() || IsUri(directory)) return std::nullopt;
  std::error_code ignored;
  std::string target = std::filesystem::read_symlink(LinkIn(directory), ignored).string();
  if (target.empty() || !std::filesystem::exists(target, ignored)) return std::nullopt;
  return target;
}

}  // namespace simurgh
