#pragma once

// Local connections to auto:// addresses. The server also listens on an abstract Unix socket named
// after its TCP endpoint. Like TCP ports, these names belong to the network namespace and any
// process can take one, so each end checks the user of the other.

#include <array>
#include <string>
#include <vector>

#include <sys/socket.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "rpc/async.h"
#include "simurgh/base/file_descriptor.h"

namespace simurgh::rpc {

// "simurgh-rpc/127.0.0.1:7000" for a server bound to that endpoint.
std::string LocalName(const asio::ip::tcp::endpoint& bound);

asio::generic::stream_protocol::endpoint LocalEndpoint(const std::string& name);

// Names of the servers that `endpoint` reaches: bound to it or to all addresses. Empty if it is not
// on this host.
std::vector<std::string> LocalNames(const asio::ip::tcp::endpoint& endpoint);

// Whether the peer process runs as this process's user or as root; false for TCP.
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

}  // namespace simurgh::rpc
