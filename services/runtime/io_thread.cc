#include "services/runtime/io_thread.h"

#include "simurgh/base/thread.h"

namespace simurgh {

IoThread::IoThread(std::string name)
    : work_(context_.get_executor()), thread_([this, name = std::move(name)] {
        SetThreadName(name);
        context_.run();
      }) {}

IoThread::~IoThread() { Stop(); }

void IoThread::Stop() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace simurgh
