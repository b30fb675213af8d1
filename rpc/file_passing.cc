#include "rpc/file_passing.h"

#include <cstring>
#include <utility>

#include "simurgh/base/check.h"

namespace simurgh::rpc {

std::vector<FileDescriptor> FilePassing::TakeAll() {
  receives_ = false;
  return std::exchange(received_, {});
}

void FilePassing::PrepareToSend(msghdr& message) {
  if (to_send_.empty()) return;
  SIMURGH_CHECK_LE(to_send_.size(), kMaxFiles);
  const size_t bytes = to_send_.size() * sizeof(int);
  message.msg_control = control_.data();
  message.msg_controllen = CMSG_SPACE(bytes);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(bytes);
  for (size_t i = 0; i < to_send_.size(); ++i) {
    const int number = to_send_[i].number();
    std::memcpy(CMSG_DATA(header) + i * sizeof(int), &number, sizeof(number));
  }
}

void FilePassing::PrepareToReceive(msghdr& message) {
  // Without a control buffer the kernel drops the files.
  if (!receives_ || received_.size() >= kMaxFiles) return;
  message.msg_control = control_.data();
  message.msg_controllen = control_.size();
}

void FilePassing::Received(msghdr& message) {
  if (message.msg_control == nullptr) return;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + at, sizeof(number));
      received_.emplace_back(number);
    }
  }
}

}  // namespace simurgh::rpc
