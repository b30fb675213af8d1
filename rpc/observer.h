#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

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
  // once. Never of a payload of 4 KiB or more.
  virtual void OnPayloadCopied(uint64_t bytes) {}
  virtual void OnConnect(std::string_view peer) {}
  virtual void OnDisconnect(std::string_view peer, const Status& reason) {}
  // A frame that broke the protocol; its connection is closed.
  virtual void OnProtocolError(std::string_view peer, const Status& reason) {}
};

}  // namespace simurgh::rpc
