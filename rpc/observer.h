#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "rpc/cut_reason.h"
#include "simurgh/base/status.h"

namespace simurgh::rpc {

// What the library reports of itself; services connect it to metrics and logs. All members do
// nothing by default. Called on the executor's thread of the client or server.
class Observer {
 public:
  virtual ~Observer() = default;

  virtual void OnCallEnd(std::string_view method, absl::StatusCode code,
                         std::chrono::nanoseconds duration) {}
  virtual void OnBytesSent(uint64_t bytes) {}
  virtual void OnBytesReceived(uint64_t bytes) {}
  // Payload bytes that passed through a read-ahead buffer instead of landing where they belong at
  // once; never of a payload of 4 KiB or more. Over TLS all of it, sent or received.
  virtual void OnPayloadCopied(uint64_t bytes) {}
  virtual void OnConnect(std::string_view peer) {}
  virtual void OnDisconnect(std::string_view peer, const Status& reason) {}
  // We hang up on a peer; `status` tells more.
  virtual void OnCut(std::string_view peer, CutReason reason, const Status& status) {}
};

}  // namespace simurgh::rpc
