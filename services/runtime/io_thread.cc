#include "services/runtime/io_thread.h"

#include <semaphore>

#include <boost/asio/post.hpp>

#include "rpc/event_loop.h"
#include "simurgh/base/thread.h"

namespace simurgh {

IoThread::IoThread(std::string name, std::chrono::microseconds spin)
    : work_(context_.get_executor()), thread_([this, name = std::move(name), spin] {
        SetThreadName(name);
        rpc::RunEventLoop(context_, spin);
      }) {}

IoThread::~IoThread() { Stop(); }

void IoThread::RunAndWait(const std::function<void()>& function) {
  std::binary_semaphore done(0);
  boost::asio::post(context_, [&] {
    function();
    done.release();
  });
  done.acquire();
}

void IoThread::Stop() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace simurgh
