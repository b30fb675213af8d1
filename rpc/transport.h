#pragma once

// Connecting and listening. TCP and Unix sockets are one type from here on.

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

// Resolves and connects, trying every address of a name in turn. With kAuto, a server of this host
// and user is reached over its local socket.
// Errors: UNAVAILABLE with the last reason; DEADLINE_EXCEEDED; CANCELLED.
[[nodiscard]] awaitable<StatusOr<Socket>> Connect(const Address& address,
                                                  Clock::time_point deadline);

// Whether the other end may be on another machine.
bool IsTcp(const Socket& socket);

// Whether the other end is known to be on this machine.
bool IsLocal(const Socket& socket);

// The other end of an accepted connection, for logs.
std::string PeerName(const Socket& socket);

// Whether the other end has closed its side, or the connection has broken.
bool HasHungUp(Socket& socket);

// From where a listening socket may be reached.
enum class Reach { kThisHost, kAll };

// A listening socket. A Unix socket's path is removed when it closes.
class Listener {
 public:
  // address: kAuto listens on TCP only. A path left behind by a dead process is taken over.
  // Errors: INVALID_ARGUMENT for a host that is not here; ALREADY_EXISTS when somebody listens
  // there; FAILED_PRECONDITION when it would be reached from where it may not.
  static StatusOr<std::unique_ptr<Listener>> Open(asio::any_io_executor executor,
                                                  const Address& address,
                                                  Reach reach = Reach::kThisHost);

  // Listens on the local socket that belongs to another's TCP port, for ends of our own user.
  // Errors: ALREADY_EXISTS.
  static StatusOr<std::unique_ptr<Listener>> OpenLocal(Listener& other);

  Listener(asio::any_io_executor executor, Address address)
      : acceptor_(std::move(executor)), address_(std::move(address)) {}
  ~Listener() { Close(); }

  // Errors: CANCELLED once closed; UNAVAILABLE when the machine is short of something, try again.
  [[nodiscard]] awaitable<StatusOr<Socket>> Accept();

  // Whether its connections may agree on shared memory.
  bool may_share() const { return own_user_only_ || address_.kind == Address::Kind::kSharedMemory; }

  // With the port chosen.
  std::string address() const { return ToString(address_); }

  void Close();

 private:
  asio::basic_socket_acceptor<asio::generic::stream_protocol> acceptor_;
  Address address_;
  std::string unix_path_;
  bool own_user_only_ = false;
};

// The listeners of an address: for kAuto TCP, then its local socket.
// Errors: those of Listener::Open.
StatusOr<std::vector<std::unique_ptr<Listener>>> Listen(const asio::any_io_executor& executor,
                                                        const Address& address,
                                                        Reach reach = Reach::kThisHost);

}  // namespace simurgh::rpc
