#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/micro/rpc/point.h"
#include "bench/micro/rpc/workload.h"

namespace simurgh::bench {

// An implementation of the workload. The server answers each request with the bytes received, and
// the client drives the workload over one connection. Each runs in its own process.
struct Peer {
  std::string name;

  // Listens at `address` ("127.0.0.1:0" or a path of the file system that is free) and calls
  // `listening` with the address for the client; then serves. It may return when its client has
  // gone; the process is ended otherwise.
  std::function<Status(const Point& point, const std::string& address,
                       const std::function<void(const std::string&)>& listening)>
      serve;

  // Runs the workload from Begin to the last Finish.
  std::function<Status(const Point& point, const std::string& address, Workload& workload)> drive;
};

// The part of a child process: `arguments` are what ChildArguments gives. The server prints its
// address, the client its Sample as bytes. Returns the exit code.
int RunChild(const std::vector<std::string>& arguments, const std::vector<Peer>& peers);

// Whether these arguments (without the program) are a child's.
bool IsChild(const std::vector<std::string>& arguments);

struct ChildRole {
  std::string peer;
  Point point;
  std::string address;
  int server = 0;  // The process to measure; 0: this child is the server.
};
std::vector<std::string> ChildArguments(const ChildRole& role);

// The rpc library. Its event loops poll for point.spin_us before they sleep.
Peer SimurghPeer(std::string name);

// One pipelined connection without any framing: the limit.
Peer RawPeer();

// The same, with all ready messages in one system call.
Peer RawGatheringPeer();

}  // namespace simurgh::bench
