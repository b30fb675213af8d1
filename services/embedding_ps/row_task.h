#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"

#include "base/mutex.h"
#include "rpc/async.h"
#include "services/api/row_rpc.h"
#include "services/embedding_ps/server_environment.h"

namespace simurgh {

// Counts down to zero and then resumes a coroutine.
//
// Threads: any.
class Latch {
 public:
  explicit Latch(size_t count) : left_(count) {}
  virtual ~Latch() = default;

  // Earlier writes of the caller are visible to the resumed coroutine. After the last call the
  // coroutine runs on its own executor, so the caller must not touch its state any more.
  void Down() {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) Resume();
  }

 private:
  virtual void Resume() = 0;

  std::atomic<size_t> left_;
};

// Calls start(latch) and resumes the caller on its executor after `count` calls of latch->Down().
// The wait cannot be cancelled. Requires count > 0.
//
// Lifetime: the caller's context must outlive the threads that call Down(): posting to it touches
// it until the post returns, when the coroutine may have run already.
template <typename Start>
[[nodiscard]] rpc::awaitable<void> AwaitLatch(size_t count, const Start& start) {
  auto initiate = [&](auto resume) {
    using Handler = decltype(resume);
    using Executor = rpc::asio::associated_executor_t<Handler>;

    class Waiting : public Latch {
     public:
      Waiting(size_t downs, Handler handler)
          : Latch(downs),
            executor_(rpc::asio::get_associated_executor(handler)),
            guard_(executor_),
            handler_(std::move(handler)) {}

     private:
      void Resume() override {
        rpc::asio::post(executor_,
                        [guard = std::move(guard_), handler = std::move(handler_)]() mutable {
                          std::move(handler)();
                        });
      }

      const Executor executor_;
      rpc::asio::executor_work_guard<Executor> guard_;
      Handler handler_;
    };

    start(std::shared_ptr<Latch>(std::make_shared<Waiting>(count, std::move(resume))));
  };
  co_await rpc::asio::async_initiate<const rpc::asio::use_awaitable_t<>, void()>(
      std::move(initiate), rpc::asio::use_awaitable);
}

// Saves or loads a server's rows beside its requests, while a trainer asks for the progress.
//
// Threads: any.
class RowTask {
 public:
  // The work reports with these.
  struct Progress {
    std::atomic<uint64_t> rows = 0;
    std::atomic<uint64_t> all_rows = 0;
    std::atomic<bool> stopped = false;  // The work must end with an error.
  };
  struct Work {
    // Returns the files that it has written.
    std::function<StatusOr<std::vector<ModelFile>>(Progress& progress)> run;
    uint64_t bytes = 0;                  // Size of these files.
    std::vector<uint64_t> evicted = {};  // See SaveProgress.
  };

  explicit RowTask(TaskStarter start) : start_(std::move(start)) {}
  // Stops the work and waits.
  ~RowTask();

  // The first call with a name starts the work that `begin` returns; the next ones with this name
  // report. A call with another name stops the work in progress, and fails with ABORTED until that
  // has ended. Errors also: those of `begin`, and then nothing has started; those of the work.
  StatusOr<SaveProgress> StartOrReport(const std::string& name,
                                       absl::FunctionRef<StatusOr<Work>()> begin);

  // Return whether the last work, or an earlier one, has this name: calls may arrive late.
  bool IsLast(const std::string& name);
  bool IsEarlier(const std::string& name);

  // Stops the work in progress. Errors: ABORTED until it has ended.
  Status Stop();

 private:
  void Run(const Work& work);

  const TaskStarter start_;
  Progress progress_;
  Mutex mutex_;
  std::string name_ ABSL_GUARDED_BY(mutex_);  // Name of the last work; empty before the first one.
  std::deque<std::string> earlier_ ABSL_GUARDED_BY(mutex_);  // Names of earlier works.
  bool done_ ABSL_GUARDED_BY(mutex_) = true;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> evicted_ ABSL_GUARDED_BY(mutex_);
  StatusOr<std::vector<ModelFile>> result_ ABSL_GUARDED_BY(mutex_) = std::vector<ModelFile>();
  std::function<void()> join_ ABSL_GUARDED_BY(mutex_);  // Empty before the first work.
};

}  // namespace simurgh
