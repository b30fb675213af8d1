#include "services/nn_worker/loader_buffer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

class LoaderReader final : public BatchReader {
 public:
  explicit LoaderReader(LoaderBuffer& buffer) : buffer_(buffer) {}

  StatusOr<std::optional<Batch>> Next() override {
    auto batch = buffer_.Take();
    if (!batch.ok() && !absl::IsCancelled(batch.status())) {
      buffer_.Fail(std::string(batch.status().message()));
    }
    return batch;
  }
  uint64_t skipped_rows() const override { return buffer_.skipped_rows(); }
  void Stop() override { buffer_.Interrupt(); }

 private:
  LoaderBuffer& buffer_;
};

}  // namespace

LoaderBuffer::LoaderBuffer(size_t loaders, size_t capacity_batches, size_t capacity_bytes,
                           std::chrono::milliseconds timeout, DataPosition begin)
    : capacity_batches_(capacity_batches),
      capacity_bytes_(capacity_bytes),
      timeout_(timeout),
      begin_(std::move(begin)),
      loaders_(loaders),
      turn_(begin_.turn()) {}

Status LoaderBuffer::Check(uint32_t loader) {
  if (loader >= loaders_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("loader ", loader, " is out of range, the trainer has ", loaders_.size(),
                     " loaders; use the same loaders.instances for all processes"));
  }
  if (failure_) {
    loaders_[loader].notified = true;
    changed_.NotifyAll();
    return absl::AbortedError(absl::StrCat("training has ended before its data: ", *failure_));
  }
  return absl::OkStatus();
}

bool LoaderBuffer::NotifyIfFinished(uint32_t loader) {
  if (!finished_) return false;
  loaders_[loader].notified = true;
  changed_.NotifyAll();
  return true;
}

StatusOr<LoaderBuffer::Opened> LoaderBuffer::Open(uint32_t loader) {
  MutexLock lock(mutex_);
  SIMURGH_RETURN_IF_ERROR(Check(loader));
  Loader& opened = loaders_[loader];
  opened.open = true;
  Opened answer{.taken = opened.taken, .session = ++opened.session, .position = begin_};
  answer.position.Merge(opened.offsets);
  changed_.NotifyAll();
  return answer;
}

Status LoaderBuffer::CheckSession(uint32_t loader, uint64_t session) const {
  if (session == 0 || session == loaders_[loader].session) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("another process feeds the share of loader ", loader, "; stop one of them"));
}

bool LoaderBuffer::HasRoom(uint32_t loader, size_t bytes) const {
  const Loader& from = loaders_[loader];
  if (loader == turn_ && from.waiting.empty()) return true;
  return from.waiting.size() < capacity_batches_ && bytes_ + bytes <= capacity_bytes_;
}

StatusOr<LoaderBuffer::Reservation> LoaderBuffer::Reserve(uint32_t loader, uint64_t number,
                                                          size_t bytes, uint64_t session) {
  MutexLock lock(mutex_);
  SIMURGH_RETURN_IF_ERROR(Check(loader));
  if (NotifyIfFinished(loader)) return Reservation{Answer::kEnough};
  Loader& from = loaders_[loader];
  if (!from.open) {
    return absl::FailedPreconditionError(
        absl::StrCat("loader ", loader,
                     " is not connected to this trainer, which was restarted; "
                     "restart all loaders of the run"));
  }
  SIMURGH_RETURN_IF_ERROR(CheckSession(loader, session));
  if (number < from.taken) return Reservation{Answer::kTaken};
  if (from.ended) {
    return absl::FailedPreconditionError(
        absl::StrCat("loader ", loader, " has ended after ", from.taken, " batches"));
  }
  if (number > from.taken || from.reserved || !HasRoom(loader, bytes)) {
    return Reservation{Answer::kWait};
  }
  from.reserved = true;
  bytes_ += bytes;
  return Reservation{Answer::kRoom, Place(*this, loader, bytes, session)};
}

Status LoaderBuffer::Fill(const Place& place, Batch batch, uint64_t skipped) {
  Status status;
  {
    MutexLock lock(mutex_);
    Loader& from = loaders_[place.loader_];
    from.reserved = false;
    status = CheckSession(place.loader_, place.session_);
    if (finished_ || failure_ || from.ended || !status.ok()) {
      bytes_ -= place.bytes_;
    } else {
      Advance(from.offsets, batch.progress.offsets);
      from.waiting.push_back({std::move(batch), place.bytes_});
      ++from.taken;
      from.skipped = skipped;
    }
  }
  NotifyChange();
  return status;
}

void LoaderBuffer::Release(uint32_t loader, size_t bytes) {
  {
    MutexLock lock(mutex_);
    loaders_[loader].reserved = false;
    bytes_ -= bytes;
  }
  NotifyChange();
}

void LoaderBuffer::NotifyChange() {
  changed_.NotifyAll();
  if (on_change_) on_change_();
}

void LoaderBuffer::EpochEnded() {
  for (size_t passed = 0; passed < loaders_.size(); ++passed) {
    if (!loaders_[turn_].ended || !loaders_[turn_].waiting.empty()) return;
    turn_ = (turn_ + 1) % loaders_.size();
  }
}

void LoaderBuffer::DropAll() {
  for (Loader& loader : loaders_) {
    for (const Waiting& one : loader.waiting) bytes_ -= one.bytes;
    loader.waiting.clear();
  }
}

Status LoaderBuffer::End(uint32_t loader, uint64_t batches, uint64_t skipped, bool short_step) {
  {
    MutexLock lock(mutex_);
    SIMURGH_RETURN_IF_ERROR(Check(loader));
    if (NotifyIfFinished(loader)) return absl::OkStatus();
    Loader& from = loaders_[loader];
    if (!from.open || from.taken != batches) {
      return absl::FailedPreconditionError(absl::StrCat("loader ", loader, " ends after ", batches,
                                                        " batches, the trainer has ", from.taken,
                                                        "; restart it"));
    }
    if (short_step && !from.ended) {
      from.waiting.push_back({Batch{.progress = {.share = loader}}, 0});
    }
    from.ended = true;
    from.skipped = skipped;
    EpochEnded();
  }
  NotifyChange();
  return absl::OkStatus();
}

std::string LoaderBuffer::NameOf(size_t loader) const {
  return absl::StrCat("loader ", loader, " of ", loaders_.size(), " (from 0)");
}

Status LoaderBuffer::Abandon(uint32_t loader, std::string_view reason, bool start_again) {
  {
    MutexLock lock(mutex_);
    SIMURGH_RETURN_IF_ERROR(Check(loader));
    if (NotifyIfFinished(loader)) return absl::OkStatus();
    if (abandoned_.empty()) {
      abandoned_ = absl::StrCat(NameOf(loader), ": ", std::string(reason));
      start_again_ = start_again;
    }
    loaders_[loader].notified = true;
  }
  changed_.NotifyAll();
  return absl::OkStatus();
}

std::string LoaderBuffer::AwaitOpen(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  MutexLock lock(mutex_);
  while (true) {
    std::string missing;
    for (size_t i = 0; i < loaders_.size(); ++i) {
      if (!loaders_[i].open) absl::StrAppend(&missing, missing.empty() ? "" : ", ", NameOf(i));
    }
    if (missing.empty() || !abandoned_.empty()) return "";
    if (!changed_.WaitUntil(mutex_, deadline)) return missing;
  }
}

StatusOr<std::optional<Batch>> LoaderBuffer::Take() {
  std::optional<Batch> batch;
  {
    MutexLock lock(mutex_);
    const auto deadline = std::chrono::steady_clock::now() + timeout_;
    while (loaders_[turn_].waiting.empty() && abandoned_.empty() && !interrupted_) {
      if (loaders_[turn_].ended) return std::nullopt;
      if (ends_early_) return Batch{.idle = true};
      if (!changed_.WaitUntil(mutex_, deadline) && loaders_[turn_].waiting.empty() &&
          !loaders_[turn_].ended && !interrupted_ && !ends_early_ && abandoned_.empty()) {
        const std::string since = loaders_[turn_].open
                                      ? absl::StrCat("after its batch ", loaders_[turn_].taken)
                                      : "since the trainer began to wait for it";
        return absl::DeadlineExceededError(absl::StrCat(
            NameOf(turn_), " has fed nothing for ", timeout_.count(), " ms (loaders.timeout) ",
            since, "; see its log; a loader that restarts in time resumes"));
      }
    }
    if (!abandoned_.empty()) {
      return start_again_ ? absl::AbortedError(abandoned_) : absl::InvalidArgumentError(abandoned_);
    }
    if (interrupted_) return absl::CancelledError("training was stopped");
    Waiting& next = loaders_[turn_].waiting.front();
    batch = std::move(next.batch);
    bytes_ -= next.bytes;
    loaders_[turn_].waiting.pop_front();
    turn_ = (turn_ + 1) % loaders_.size();
    EpochEnded();
  }
  if (on_change_) on_change_();
  return batch;
}

void LoaderBuffer::EndEarly() {
  {
    MutexLock lock(mutex_);
    ends_early_ = true;
  }
  changed_.NotifyAll();
}

void LoaderBuffer::Interrupt() {
  {
    MutexLock lock(mutex_);
    interrupted_ = true;
  }
  changed_.NotifyAll();
}

void LoaderBuffer::Finish() {
  {
    MutexLock lock(mutex_);
    finished_ = true;
    DropAll();
  }
  if (on_change_) on_change_();
}

void LoaderBuffer::Fail(std::string reason) {
  {
    MutexLock lock(mutex_);
    if (!failure_) failure_ = std::move(reason);
    interrupted_ = true;
    DropAll();
  }
  NotifyChange();
}

void LoaderBuffer::AwaitNotifiedAll(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  const auto feeds = [](const Loader& loader) {
    return loader.open && !loader.ended && !loader.notified;
  };
  while (std::ranges::any_of(loaders_, feeds) && changed_.WaitUntil(mutex_, deadline)) {
  }
}

uint64_t LoaderBuffer::skipped_rows() const {
  MutexLock lock(mutex_);
  uint64_t rows = 0;
  for (const Loader& loader : loaders_) rows += loader.skipped;
  return rows;
}

bool LoaderBuffer::ended_empty() const {
  MutexLock lock(mutex_);
  return std::ranges::all_of(
      loaders_, [](const Loader& loader) { return loader.ended && loader.taken == 0; });
}

size_t LoaderBuffer::bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

std::unique_ptr<BatchReader> NewLoaderReader(LoaderBuffer& buffer) {
  return std::make_unique<LoaderReader>(buffer);
}

}  // namespace simurgh
