#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

#include "rpc/call.h"
#include "rpc/close_reason.h"
#include "simurgh/base/status.h"

namespace simurgh::rpc {

// The end of a call. Lifetime: of the OnCallEnd() call.
struct CallReport {
  MethodId method;
  Trace trace;
  const Status& status;
  // At the client the time of Client::Call; at the server from the request's arrival to the end of
  // the handler.
  std::chrono::nanoseconds duration{};
  Clock::time_point end;
  // Of the duration: before the handler began. 0 at the client.
  std::chrono::nanoseconds waited{};
  // Metadata and segments. 0 for a message that does not exist, such as the response of an error.
  uint64_t request_bytes = 0;
  uint64_t response_bytes = 0;
};

// Receives events for metrics and logs; by default all are ignored.
//
// Threads: that of the client's or server's executor.
class Observer {
 public:
  virtual ~Observer() = default;

  // A call has begun; at a server, its handler. Each start has one end, except for calls that are
  // running when a client or server is stopped or destroyed. A request that a server refuses starts
  // and ends at once; an unknown method has the number 0 and the name "unknown".
  virtual void OnCallStart(const MethodId& method) {}
  virtual void OnCallEnd(const CallReport& report) {}
  virtual void OnBytesSent(uint64_t bytes) {}
  virtual void OnBytesReceived(uint64_t bytes) {}
  // Payload bytes that user space copied: into shared memory unless produced there, from shared
  // memory to a named destination, and all bytes of TLS connections.
  virtual void OnPayloadCopied(uint64_t bytes) {}
  // Payload bytes copied from a read-ahead buffer (not over TLS); only of payloads below 4 KiB.
  virtual void OnSmallPayloadCopied(uint64_t bytes) {}
  virtual void OnConnect(std::string_view peer) {}
  virtual void OnDisconnect(std::string_view peer, const Status& reason) {}
  // This end closes a connection because of its peer.
  virtual void OnClose(std::string_view peer, CloseReason reason, const Status& status) {}
  // A peer has to wait; under load this is normal. For kAccept, `peer` is the listening address.
  virtual void OnThrottle(std::string_view peer, ThrottleReason reason) {}
};

// A shared pointer to an observer. Detach() of one copy detaches all, so that sessions that outlive
// their client or server stop reporting.
class ObserverLink {
 public:
  // observer: may be null; outlives the link until Detach().
  explicit ObserverLink(Observer* observer)
      : target_(std::make_shared<Observer*>(observer ? observer : Null())) {}

  Observer* operator->() const { return *target_; }
  void Detach() { *target_ = Null(); }

 private:
  static Observer* Null() {
    static Observer null;
    return &null;
  }

  std::shared_ptr<Observer*> target_;
};

}  // namespace simurgh::rpc
