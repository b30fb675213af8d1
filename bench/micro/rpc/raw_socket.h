#pragma once

#include <functional>
#include <string>

#include "base/status.h"

namespace simurgh::bench {

// A connected stream socket with the options that rpc/transport.cc sets on one host.
// Errors of the functions: UNAVAILABLE with the system's message.
class RawSocket {
 public:
  explicit RawSocket(int handle) : handle_(handle) {}
  RawSocket(RawSocket&& other) noexcept;
  RawSocket& operator=(RawSocket&&) = delete;
  ~RawSocket();

  int handle() const { return handle_; }

  // transport: "tcp" or "unix"; address: "127.0.0.1:0" or a path. Calls `listening` with the
  // address chosen, then waits for one connection.
  static StatusOr<RawSocket> AcceptOne(const std::string& transport, const std::string& address,
                                       const std::function<void(const std::string&)>& listening);
  static StatusOr<RawSocket> Connect(const std::string& transport, const std::string& address);

 private:
  int handle_;
};

Status SystemError(const char* what);

}  // namespace simurgh::bench
