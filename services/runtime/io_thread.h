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
// Lifetime: what still waits when it stops is destroyed, unfinished, with the IoThread; so its
// handlers' objects must outlive it: declare an IoThread after what runs on it.
class IoThread {
 public:
  // name: of the thread, at most 15 characters. max_spin: as rpc::RunEventLoop has it.
  explicit IoThread(std::string name, std::chrono::microseconds max_spin = {});
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;
  ~IoThread();

  boost::asio::any_io_executor executor() { return context_.get_executor(); }

  // Runs a function on the thread and waits for its end.
  // Requires the caller to be another thread, and the thread not to be stopped.
  void RunAndWait(const std::function<void()>& function);

  // Lets the handler that runs finish, starts no other, and joins. Does nothing the second time.
  void Stop();

 private:
  // Its sockets and timers are used by its thread alone; only posts come from others.
  boost::asio::io_context context_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE_IO};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace simurgh
