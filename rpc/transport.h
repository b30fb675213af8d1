#pragma once

// Connecting and listening over TCP and Unix sockets.

#include <memory>
#include <string>
#include <vector>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>

#include "rpc/address.h"
#include "rpc/async.h"
#include "simurgh/base/status.h"

namespace simurgh::rpc {

using Socket = asio::generic::stream_protocol::socket;

// Connects to the first address of the name that accepts. With kAuto, a server of the same host and
// user is reached over its local socket.
// Errors: UNAVAILABLE with the last error; DEADLINE_EXCEEDED; CANCELLED.
[[nodiscard]] awaitable<StatusOr<Socket>> Connect(const Address& address,
                                                  Clock::time_point deadline);

// Whether the peer may be on another machine.
bool IsTcp(const Socket& socket);

// Whether the peer is known to be on this machine.
bool IsLocal(const Socket& socket);

// The peer's address, for logs.
std::string PeerName(const Socket& socket);

// Whether the peer has closed its side or the connection is broken.
bool HasHungUp(Socket& socket);

// The machines that may connect.
enum class Reach { kThisHost, kAll };

// A listening socket. Close() removes the path of a Unix socket.
class Listener {
 public:
  // address: kAuto listens on TCP only. Replaces the socket file of a dead process.
  // Errors: INVALID_ARGUMENT for a host that is not this one; ALREADY_EXISTS when the address is in
  // use; FAILED_PRECONDITION when `reach` does not allow the address; RESOURCE_EXHAUSTED without
  // file descriptors.
  static StatusOr<std::unique_ptr<Listener>> Open(asio::any_io_executor executor,
                                                  const Address& address,
                                                  Reach reach = Reach::kThisHost);

  // Listens on the local socket that belongs to the TCP port of `other`, for the same user.
  // Errors: ALREADY_EXISTS.
  static StatusOr<std::unique_ptr<Listener>> OpenLocal(Listener& other);

  Listener(const asio::any_io_executor& executor, Address address)
      : acceptor_(executor), address_(std::move(address)) {}
  ~Listener() { Close(); }

  // Errors: CANCELLED after Close(); UNAVAILABLE when resources are short (retry).
  [[nodiscard]] awaitable<StatusOr<Socket>> Accept();

  // Whether its connections may use shared memory.
  bool may_share() const { return own_user_only_ || address_.kind == Address::Kind::kSharedMemory; }

  // With the actual port.
  std::string address() const { return ToString(address_); }

  void Close();

 private:
  asio::basic_socket_acceptor<asio::generic::stream_protocol> acceptor_;
  Address address_;
  std::string unix_path_;
  bool own_user_only_ = false;
};

// Opens the listeners of an address: for kAuto TCP, then its local socket.
// Errors: those of Listener::Open.
StatusOr<std::vector<std::unique_ptr<Listener>>> Listen(const asio::any_io_executor& executor,
                                                        const Address& address,
                                                        Reach reach = Reach::kThisHost);

}  // namespace simurgh::rpc
