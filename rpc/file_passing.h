#pragma once

#include <array>
#include <vector>

#include <sys/socket.h>

#include "rpc/file_descriptor.h"

namespace simurgh::rpc {

// Files that go along with bytes over a Unix socket while a connection opens: two each way. Others
// that the peer sends are lost.
//
// Threads: one.
class FilePassing {
 public:
  static constexpr size_t kMaxFiles = 2;

  // At most kMaxFiles, to go with the next bytes written.
  void Send(std::vector<FileDescriptor> files) { to_send_ = std::move(files); }

  // Those that have come so far; no more are taken.
  std::vector<FileDescriptor> TakeAll();

  // For the stream: before and after sendmsg.
  void PrepareToSend(msghdr& message);
  void Sent() { to_send_.clear(); }

  // And recvmsg, which is to have MSG_CMSG_CLOEXEC.
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
