#pragma once

// Addresses, connecting and listening. TCP and Unix sockets are one type from here on.

#include <cstdint>
#include <memory>
#include <string>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>

#include "rpc/async.h"
#include "simurgh/base/status.h"

namespace simurgh::rpc {

using Socket = asio::generic::stream_protocol::socket;

struct Address {
  enum class Kind { kTcp, kUnix };
  Kind kind = Kind::kTcp;
  std::string host;  // A name, an IPv4 or an IPv6 address without brackets. kTcp.
  uint16_t port = 0;
  std::string path;  // kUnix.
};

// "host:port", "[::1]:port" or "unix:/path".
// Errors: INVALID_ARGUMENT.
StatusOr<Address> ParseAddress(const std::string& text);

// Resolves and connects, trying every address of a name in turn.
// Errors: UNAVAILABLE with the last reason; DEADLINE_EXCEEDED.
[[nodiscard]] awaitable<StatusOr<Socket>> Connect(const Address& address,
                                                  Clock::time_point deadline);

// The other end of an accepted connection, for logs.
std::string PeerName(const Socket& socket);

// A listening socket. A Unix socket's path is removed when it closes.
class Listener {
 public:
  // A path left behind by a dead process is taken over.
  // Errors: INVALID_ARGUMENT for a host that is not here; ALREADY_EXISTS when somebody listens
  // there.
  static StatusOr<std::unique_ptr<Listener>> Open(asio::any_io_executor executor,
                                                  const Address& address);
  explicit Listener(asio::any_io_executor executor) : acceptor_(std::move(executor)) {}
  ~Listener() { Close(); }

  // Errors: CANCELLED once closed; UNAVAILABLE when the machine is short of something, try again.
  [[nodiscard]] awaitable<StatusOr<Socket>> Accept();

  // With the port chosen.
  const std::string& address() const { return address_; }

  void Close();

 private:
  asio::basic_socket_acceptor<asio::generic::stream_protocol> acceptor_;
  std::string address_;
  std::string unix_path_;
};

}  // namespace simurgh::rpc
