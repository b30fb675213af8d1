#pragma once

// Method, trace and options of a call.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/hash.h"
#include "base/status.h"
#include "rpc/async.h"

namespace simurgh::rpc {

// A method: its number on the wire, from 1, and its name in metrics, logs and traces, a literal.
struct MethodId {
  uint32_t number = 0;
  std::string_view name;
};

// Connects the calls of one operation across processes. Each nested call has its own span. 0 means
// none.
struct Trace {
  uint64_t trace_id = 0;
  uint64_t span_id = 0;

  // Returns the trace of the nested call `number`.
  Trace Child(uint64_t number) const {
    if (trace_id == 0) return {};
    return {.trace_id = trace_id, .span_id = Mix64(span_id + number + 1)};
  }
};

// The options of a call. A deadline converts to them.
struct CallOptions {
  CallOptions(Clock::time_point until, Trace of = {})  // NOLINT(google-explicit-constructor)
      : deadline(until), trace(of) {}

  Clock::time_point deadline;  // Clock::time_point::max() for none.
  // Maximum wait for a connection, within the deadline.
  Clock::duration patience = Clock::duration::max();
  Trace trace;
};

// Why an end closed a connection because of its peer.
enum class CloseReason : uint8_t {
  kMalformed,        // The peer broke the protocol.
  kTls,              // TLS handshake: one end does not trust the other, or does not use TLS.
  kRefused,          // The HELLOs do not match.
  kNoHello,          // No HELLO in time.
  kCrowd,            // No HELLO, or no call for long, and newer ones need the place.
  kConnections,      // Limit of connections.
  kHostConnections,  // Limit of connections per host.
  kWindow,           // Requests exceed the window.
  kStalled,          // A frame or chunked message makes no progress.
  kNotReading,       // Answers remain unread.
  kMemory,           // Takes most of the memory that requests wait for in vain.
};
inline constexpr size_t kCloseReasons = 11;

// Returns the name for metrics and logs, such as "malformed".
std::string_view NameOf(CloseReason reason);

// Attaches the reason to the status that closes a connection. It is not sent.
Status WithCloseReason(Status status, CloseReason reason);

// The attached reason; kMalformed for DATA_LOSS without one; else nullopt.
std::optional<CloseReason> CloseReasonOf(const Status& status);

// Why an end delays reading from a peer or accepting one.
enum class ThrottleReason : uint8_t {
  kRequests,  // Too many unanswered requests.
  kAnswers,   // Too many unread bytes of answers.
  kTurn,      // The peer sends without a pause; other connections are served first.
  kMemory,    // Peers take all memory for requests and answers.
  kAccept,    // File descriptors or memory are short.
};
inline constexpr size_t kThrottleReasons = 5;

// Returns the name for metrics, such as "requests".
std::string_view NameOf(ThrottleReason reason);

// The end of a call. Lifetime: valid during the call of OnCallEnd().
struct CallReport {
  MethodId method;
  Trace trace;
  const Status& status;
  // At the client, the time of Client::Call. At the server, the time from the request's arrival to
  // the end of the handler.
  std::chrono::nanoseconds duration{};
  Clock::time_point end;
  // The part of the duration before the handler began; 0 at the client.
  std::chrono::nanoseconds waited{};
  // Size of metadata and segments; 0 without a message, such as the response of a failed call.
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
