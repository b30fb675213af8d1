#include "services/runtime/io_thread.h"

#include <future>

#include <boost/asio/post.hpp>

#include "base/thread.h"
#include "rpc/async.h"

namespace simurgh {

IoThread::IoThread(std::string name, std::chrono::microseconds spin)
    : work_(context_.get_executor()), thread_([this, name = std::move(name), spin] {
        SetThreadName(name);
        rpc::RunEventLoop(context_, spin);
      }) {}

IoThread::~IoThread() { Stop(); }

void IoThread::RunAndWait(const std::function<void()>& function) {
  std::packaged_task<void()> task(function);
  boost::asio::post(context_, [&task] { task(); });
  task.get_future().get();
}

void IoThread::Stop() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace simurgh
