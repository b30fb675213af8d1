#include "services/embedding_ps/server_environment.h"

#include <thread>
#include <utility>

#include <boost/asio/use_future.hpp>

#include "base/thread.h"
#include "rpc/async.h"
#include "services/runtime/io_thread.h"

namespace simurgh {
namespace {

class RealPartitionThread : public PartitionThread {
 public:
  explicit RealPartitionThread(const std::string& name) : thread_(name) {}

  boost::asio::any_io_executor executor() override { return thread_.executor(); }
  std::future<void> Run(std::function<void()> function) override {
    return rpc::asio::post(thread_.executor(), rpc::asio::use_future(std::move(function)));
  }

 private:
  IoThread thread_;
};

}  // namespace

std::unique_ptr<PartitionThread> StartPartitionThread(const std::string& name) {
  return std::make_unique<RealPartitionThread>(name);
}

std::function<void()> StartTaskThread(std::function<void()> task) {
  const auto thread = std::make_shared<std::jthread>(std::move(task));
  return [thread] {
    if (thread->joinable()) thread->join();
  };
}

std::function<void()> StartBackgroundThread(std::function<void()> task) {
  return StartTaskThread([task = std::move(task)] {
    LowerPriority();
    task();
  });
}

}  // namespace simurgh
