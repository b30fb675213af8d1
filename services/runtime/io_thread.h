#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include <boost/asio/executor_work_guard.hpp>

#include "rpc/async.h"

namespace simurgh {

// An io_context and the one thread that runs it, from construction to Stop().
//
// Threads: executor() and Stop() from any thread but its own (Stop() joins it).
// Lifetime: the destructor destroys waiting handlers unfinished, so their objects must outlive the
// IoThread: declare it after them.
class IoThread {
 public:
  // name: at most 15 characters. spin: see rpc::RunEventLoop.
  explicit IoThread(std::string name, std::chrono::microseconds spin = {});
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;
  ~IoThread();

  boost::asio::any_io_executor executor() { return context_.get_executor(); }

  // Runs a function on the thread and waits for it. Throws what the function throws, for example
  // Asio when file descriptors run out.
  // Requires another thread as the caller, and that Stop() has not been called.
  void RunAndWait(const std::function<void()>& function);

  // Waits for the running handler, starts no other and joins the thread. Can be repeated.
  void Stop();

 private:
  // Only its own thread uses its sockets and timers; other threads only post.
  boost::asio::io_context context_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE_IO};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace simurgh
