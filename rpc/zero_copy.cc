#include "rpc/zero_copy.h"

#include <ctime>

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace simurgh::rpc {
namespace {

bool IsReport(const cmsghdr& message) {
  return (message.cmsg_level == SOL_IP && message.cmsg_type == IP_RECVERR) ||
         (message.cmsg_level == SOL_IPV6 && message.cmsg_type == IPV6_RECVERR);
}

}  // namespace

ZeroCopy::ZeroCopy(int socket) : socket_(socket) {
  const int one = 1;
  on_ = ::setsockopt(socket_, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)) == 0;
}

void ZeroCopy::Collect() {
  for (;;) {
    alignas(cmsghdr) char control[256];
    msghdr message{};
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (::recvmsg(socket_, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
         part = CMSG_NXTHDR(&message, part)) {
      if (!IsReport(*part)) continue;
      const auto& report = *reinterpret_cast<const sock_extended_err*>(CMSG_DATA(part));
      if (report.ee_origin != SO_EE_ORIGIN_ZEROCOPY || report.ee_errno != 0) continue;
      if ((report.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0) on_ = false;
      Over(report.ee_info, report.ee_data);
    }
  }
}

// Reports come in order but for lost packets; nothing is free before what was written earlier.
void ZeroCopy::Over(uint32_t first, uint32_t last) {
  const uint32_t count = last - first + 1;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t index = first + i - first_number_;
    if (index < writes_.size()) writes_[index].over = true;
  }
  while (!writes_.empty() && writes_.front().over) {
    writes_.pop_front();
    ++first_number_;
  }
}

}  // namespace simurgh::rpc
