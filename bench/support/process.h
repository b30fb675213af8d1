#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/status.h"

namespace simurgh::bench {

// A child process whose standard input and output are pipes to us; standard error is ours. The
// destructor kills it if it still runs.
class Process {
 public:
  // Errors: NOT_FOUND if the program cannot be run.
  static StatusOr<Process> Start(const std::string& program,
                                 const std::vector<std::string>& arguments);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  pid_t id() const { return id_; }

  // Reads output until `place` is full.
  // Errors: UNAVAILABLE if it ends before; DEADLINE_EXCEEDED.
  Status Read(std::span<std::byte> place, std::chrono::steady_clock::time_point deadline);

  // Reads to the end of a line; without the newline. Errors as Read.
  StatusOr<std::string> ReadLine(std::chrono::steady_clock::time_point deadline);

  // Closes its input and waits for its end.
  // Errors: INTERNAL if it does not end well, or not within some seconds (then it is killed).
  Status Stop();

 private:
  Process(pid_t id, int input, int output) : id_(id), input_(input), output_(output) {}

  pid_t id_;
  int input_;
  int output_;
};

}  // namespace simurgh::bench
