#include "services/nn_worker/checkpointer.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "simurgh/base/check.h"
#include "simurgh/base/log.h"
#include "simurgh/base/thread.h"

namespace simurgh {
namespace {

// Between two signs of life for the servers while a failed save waits for a request.
constexpr std::chrono::seconds kKeepAlive{1};

}  // namespace

Checkpointer::Checkpointer(const CheckpointConfig& config, BestCheckpoints& best, Prepare prepare,
                           Load load, MetricRegistry& registry)
    : config_(config),
      best_(best),
      prepare_(std::move(prepare)),
      load_(std::move(load)),
      time_(registry.GetGauge("simurgh_nn_checkpoint_time_seconds",
                              "Unix time of the newest checkpoint's step.")),
      step_(registry.GetGauge("simurgh_nn_checkpoint_step", "Step of the newest checkpoint.")),
      seconds_(registry.GetGauge("simurgh_nn_checkpoint_seconds",
                                 "Duration of the last complete save.")),
      bytes_(registry.GetGauge("simurgh_nn_checkpoint_bytes", "Bytes of the newest checkpoint.")),
      rows_(registry.GetGauge("simurgh_nn_checkpoint_rows", "Rows of the newest checkpoint.")),
      failures_(registry.GetCounter("simurgh_nn_checkpoint_failures_total",
                                    "Checkpoints that could not be saved.")),
      skipped_(registry.GetCounter(
          "simurgh_nn_checkpoint_skipped_total",
          "Intervals of checkpoint.every without a checkpoint, since a save took longer.")) {}

Checkpointer::~Checkpointer() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void Checkpointer::SetNewest(uint64_t step, std::time_t step_time) {
  step_.Set(static_cast<double>(step));
  time_.Set(static_cast<double>(step_time));
  MutexLock lock(mutex_);
  newest_ = step;
}

bool Checkpointer::IsDue(uint64_t step, bool evaluates) {
  const auto now = Clock::now();
  MutexLock lock(mutex_);
  bool due = config_.at_steps.contains(step) ||
             (config_.every_steps > 0 && step % config_.every_steps == 0);
  // These would make training wait.
  if (due_.empty() && !saving_) {
    due = due || requests_ > saved_requests_;
    if (config_.every.count() > 0 && now - last_due_ >= config_.every) {
      skipped_.Add(static_cast<uint64_t>((now - last_due_) / config_.every) - 1);
      due = true;
    }
  }
  if (due) {
    last_due_ = now;
    due_.insert(step);
  }
  return due || (evaluates && best_.enabled());
}

bool Checkpointer::IsWanted(const TrainState& state) {
  {
    MutexLock lock(mutex_);
    if (due_.contains(state.steps)) return true;
  }
  return best_.Admits(state);
}

std::optional<uint64_t> Checkpointer::BestStep(const TrainState& state) {
  return best_.BestWith(state);
}

uint64_t Checkpointer::newest() {
  MutexLock lock(mutex_);
  return newest_;
}

bool Checkpointer::AwaitIdle(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  MutexLock lock(mutex_);
  while (saving_) {
    if (!changed_.WaitUntil(mutex_, deadline)) return !saving_;
  }
  return true;
}

bool Checkpointer::AwaitRows(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  MutexLock lock(mutex_);
  while (saving_ && !rows_noted_) {
    if (!changed_.WaitUntil(mutex_, deadline)) return !saving_ || rows_noted_;
  }
  return true;
}

Status Checkpointer::failure() {
  MutexLock lock(mutex_);
  return failure_;
}

void Checkpointer::Begin(const TrainState& state) {
  Start(prepare_(state), /*at_mark=*/true);
  MutexLock lock(mutex_);
  due_.erase(state.steps);
}

void Checkpointer::Start(Work work, bool at_mark) {
  Launch([this, work = std::move(work), at_mark] { Run(work, at_mark); });
}

void Checkpointer::BeginLoad(uint64_t step) {
  Launch([this, step] {
    const Status loaded = load_(step, stop_.get_token());
    MutexLock lock(mutex_);
    if (!loaded.ok()) failure_ = loaded;
    saving_ = false;
    changed_.NotifyAll();
  });
}

void Checkpointer::Launch(std::function<void()> task) {
  if (thread_.joinable()) thread_.join();
  {
    MutexLock lock(mutex_);
    SIMURGH_CHECK(!saving_);
    saving_ = true;
    rows_noted_ = false;
    progress_ = {};
  }
  thread_ = std::thread([task = std::move(task)] {
    SetThreadName("checkpoint");
    task();
  });
}

void Checkpointer::Run(const Work& work, bool at_mark) {
  const auto begin = Clock::now();
  uint64_t requests = 0;
  const auto on_rows = [&](const SaveProgress& progress) {
    MutexLock lock(mutex_);
    rows_noted_ = true;
    progress_.rows = progress.rows;
    progress_.all_rows = progress.all_rows;
    changed_.NotifyAll();
  };
  {
    MutexLock lock(mutex_);
    requests = requests_;
  }
  StatusOr<SavedCheckpoint> saved = work(on_rows, stop_.get_token());
  if (saved.ok()) {
    OnSaved(*saved, Clock::now() - begin);
  } else {
    failures_.Add();
  }
  MutexLock lock(mutex_);
  last_ = saved;
  saving_ = false;
  saved_requests_ = requests;
  if (at_mark) {
    const bool ends =
        absl::IsCancelled(saved.status()) || config_.on_error == CheckpointConfig::OnError::kStop;
    if (!saved.ok() && ends) failure_ = saved.status();
    if (!saved.ok() && !ends) {
      spdlog::error("{}; training continues", std::string(saved.status().message()));
    }
  }
  changed_.NotifyAll();
}

void Checkpointer::OnSaved(const SavedCheckpoint& saved, Clock::duration duration) {
  SetNewest(saved.step, saved.step_time);
  seconds_.Set(std::chrono::duration<double>(duration).count());
  bytes_.Set(static_cast<double>(saved.bytes));
  rows_.Set(static_cast<double>(saved.rows));
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
    Start(work(directory), /*at_mark=*/false);
    while (!AwaitIdle(kKeepAlive)) continue;
    Status status;
    {
      MutexLock lock(mutex_);
      status = last_.status();
    }
    const bool is_final = absl::IsCancelled(status) || absl::IsDataLoss(status);
    if (status.ok() || config_.on_error == CheckpointConfig::OnError::kStop || !keep_alive ||
        is_final || stop.stop_requested()) {
      return status;
    }
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
    if (requests_ == saved_requests_) changed_.WaitUntil(mutex_, Clock::now() + kKeepAlive);
    if (requests_ > saved_requests_) return absl::OkStatus();
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
  if (!directory.empty()) directory_ = std::move(directory);
  changed_.NotifyAll();
  return ++requests_;
}

StatusOr<Checkpointer::Answer> Checkpointer::Ask(uint64_t request) {
  MutexLock lock(mutex_);
  if (request == 0 || request > requests_) {
    return absl::OutOfRangeError(
        "training was started anew after the request for a checkpoint; ask again");
  }
  Answer answer{.done = request <= saved_requests_};
  if (answer.done) {
    SIMURGH_ASSIGN_OR_RETURN(answer.saved, last_);
    return answer;
  }
  if (!refusal_.ok()) return refusal_;
  if (saving_) {
    answer.rows = progress_.rows;
    answer.all_rows = progress_.all_rows;
  }
  return answer;
}

}  // namespace simurgh
