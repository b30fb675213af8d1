#pragma once

// Local connections to auto:// addresses. The server also listens on an abstract Unix socket named
// after its TCP endpoint. Like TCP ports, these names belong to the network namespace and any
// process can take one, so each end checks the user of the other.

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <sys/socket.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/file_descriptor.h"
#include "base/status.h"
#include "rpc/address.h"
#include "rpc/async.h"

namespace simurgh::rpc {

// "simurgh-rpc/127.0.0.1:7000" for a server bound to that endpoint.
std::string LocalName(const asio::ip::tcp::endpoint& bound);

asio::generic::stream_protocol::endpoint LocalEndpoint(const std::string& name);

// Names of the servers that `endpoint` reaches: bound to it or to all addresses. Empty if it is not
// on this host.
std::vector<std::string> LocalNames(const asio::ip::tcp::endpoint& endpoint);

// Returns whether the peer process runs as this process's user or as root; false for TCP.
bool IsOwnUser(asio::generic::stream_protocol::socket& socket);

// Passes up to two files in each direction over a Unix socket, with the bytes of the HELLO. Further
// files from the peer are dropped.
//
// Threads: one.
class FilePassing {
 public:
  static constexpr size_t kMaxFiles = 2;

  // Passes the files with the next bytes written. Requires at most kMaxFiles.
  void Send(std::vector<FileDescriptor> files) { to_send_ = std::move(files); }

  // The files received so far; later ones are dropped.
  std::vector<FileDescriptor> TakeAll();

  // Called by the stream before and after sendmsg.
  void PrepareToSend(msghdr& message);
  void Sent() { to_send_.clear(); }

  // Called around recvmsg, which needs MSG_CMSG_CLOEXEC.
  bool receives() const { return receives_; }
  void PrepareToReceive(msghdr& message);
  void Received(msghdr& message);

 private:
  std::vector<FileDescriptor> to_send_;
  std::vector<FileDescriptor> received_;
  bool receives_ = true;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFiles * sizeof(int))> control_{};
};

// Connecting and listening over TCP and Unix sockets.

using Socket = asio::generic::stream_protocol::socket;

// The users of this host whose processes may be the other end of a socket with a path: this
// process's and root, or all, who then prove a token. The local socket of kAuto is for the former.
enum class Users { kOwn, kAll };

// Connects to the first address of the name that accepts. With kAuto, a server of the same host and
// user is reached over its local socket.
// Errors: UNAVAILABLE with the last error; PERMISSION_DENIED for the server of another user;
// DEADLINE_EXCEEDED; CANCELLED.
[[nodiscard]] awaitable<StatusOr<Socket>> Connect(const Address& address,
                                                  Clock::time_point deadline,
                                                  Users users = Users::kOwn);

// Returns whether the peer may be on another machine.
bool IsTcp(const Socket& socket);

// Returns whether the peer is known to be on this machine.
bool IsLocal(const Socket& socket);

// The peer's address, for logs.
std::string PeerName(const Socket& socket);

// Returns whether the peer has closed its side or the connection is broken.
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
                                                  Reach reach = Reach::kThisHost,
                                                  Users users = Users::kOwn);

  // Listens on the local socket that belongs to the TCP port of `other`, for the same user.
  // Errors: ALREADY_EXISTS.
  static StatusOr<std::unique_ptr<Listener>> OpenLocal(Listener& other);

  Listener(const asio::any_io_executor& executor, Address address)
      : acceptor_(executor), address_(std::move(address)) {}
  ~Listener() { Close(); }

  // Errors: CANCELLED after Close(); UNAVAILABLE when resources are short (retry).
  [[nodiscard]] awaitable<StatusOr<Socket>> Accept();

  // Returns whether its connections may use shared memory.
  bool may_share() const {
    return address_.kind == Address::Kind::kSharedMemory ||
           (own_user_only_ && !address_.has_path());
  }

  // The listening address, with the actual port.
  std::string address() const { return ToString(address_); }

  void Close();

 private:
  asio::basic_socket_acceptor<asio::generic::stream_protocol> acceptor_;
  Address address_;
  std::string unix_path_;
  bool own_user_only_ = false;
};

// Opens the listeners of an address: for kAuto TCP, then its local socket, unless another process
// has its name. Errors: those of Listener::Open.
StatusOr<std::vector<std::unique_ptr<Listener>>> Listen(const asio::any_io_executor& executor,
                                                        const Address& address,
                                                        Reach reach = Reach::kThisHost,
                                                        Users users = Users::kOwn);

}  // namespace simurgh::rpc
