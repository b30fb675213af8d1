#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "rpc/call.h"
#include "rpc/close_reason.h"
#include "rpc/throttle_reason.h"
#include "simurgh/base/status.h"

namespace simurgh::rpc {

// How a call ended. Good while it is being reported.
struct CallReport {
  MethodId method;
  Trace trace;
  const Status& status;
  // At the client from the call to its return, at the server from the request's arrival to the
  // handler's end.
  std::chrono::nanoseconds duration{};
  // Metadata and segments; 0 for what has not been there, and for the response in place of which
  // there is an error.
  uint64_t request_bytes = 0;
  uint64_t response_bytes = 0;
};

// What the library reports of itself; services connect it to metrics and logs. All members do
// nothing by default. Called on the executor's thread of the client or server.
class Observer {
 public:
  virtual ~Observer() = default;

  // A call has begun, or, at a server, its handler. Every call that begins ends, but for those that
  // a client or server leaves behind when it is stopped or destroyed. One that a server refuses
  // begins and ends at once, and is named "unknown", with the number 0, if there is no such method.
  virtual void OnCallStart(const MethodId& method) {}
  virtual void OnCallEnd(const CallReport& report) {}
  virtual void OnBytesSent(uint64_t bytes) {}
  virtual void OnBytesReceived(uint64_t bytes) {}
  // Payload bytes that were copied on their way: into shared memory when they were not produced
  // there, and out of it into a named place; over TLS all, sent or received.
  virtual void OnPayloadCopied(uint64_t bytes) {}
  // Payload bytes that came through a read-ahead buffer instead of landing where they belong at
  // once, not over TLS: never of a payload of 4 KiB or more.
  virtual void OnSmallPayloadCopied(uint64_t bytes) {}
  virtual void OnConnect(std::string_view peer) {}
  virtual void OnDisconnect(std::string_view peer, const Status& reason) {}
  // We hang up on a peer; `status` tells more.
  virtual void OnCut(std::string_view peer, CloseReason reason, const Status& status) {}
  // A peer must wait. Happens to honest ones under load, too. With kAccept, `peer` is the address
  // that we listen on.
  virtual void OnThrottle(std::string_view peer, ThrottleReason reason) {}
};

}  // namespace simurgh::rpc
