#pragma once

#include <array>
#include <vector>

#include <sys/socket.h>

#include "simurgh/base/file_descriptor.h"

namespace simurgh::rpc {

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
