#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "rpc/async.h"
#include "rpc/call.h"
#include "rpc/message.h"
#include "rpc/observer.h"

namespace simurgh::rpc {

class TlsContext;

struct ClientOptions {
  // For servers over TCP; others are on this host.
  std::shared_ptr<const TlsContext> tls = nullptr;
  std::chrono::milliseconds connect_timeout{5'000};
  // Doubles with jitter up to the maximum; anew after a connection on which a call was answered.
  std::chrono::milliseconds backoff_min{20};
  std::chrono::milliseconds backoff_max{2'000};
  uint64_t max_frame_bytes = uint64_t{1} << 30;
  uint32_t max_metadata_bytes = uint32_t{16} << 20;  // Of one frame.
  uint16_t max_segments = 65'535;                    // Of one frame.
  // How long a server may stop in the middle of a frame or a message.
  std::chrono::milliseconds stall_timeout{30'000};
  // Where memory is shared: address space for what a connection sends. Pages are taken when they
  // are needed. 0 switches it off.
  uint64_t shared_memory_bytes = uint64_t{1} << 30;
};

// One peer, one connection, many calls in flight. Connects on first use, and again with jittered
// backoff after a loss; a call waits for the connection as long as its deadline and patience
// allow.
//
// Threads: everything runs on the executor given, which must be a single thread's; call from there.
// Lifetime: outlive every call, or Stop() and wait for it.
class Client {
 public:
  // address: see rpc/address.h. observer may be null and must outlive the client.
  Client(asio::any_io_executor executor, std::string address, Hello hello, ClientOptions options,
         Observer* observer);
  ~Client();

  // Sends a request and receives its response into the places that `placement` names.
  // Errors: the remote handler's, as it returned them; UNAVAILABLE when the peer cannot be reached
  // or the connection is lost, whether the request has been executed or not;
  // DEADLINE_EXCEEDED; INVALID_ARGUMENT when the peer's HELLO does not fit; UNAUTHENTICATED when
  // one end does not trust the other.
  [[nodiscard]] awaitable<StatusOr<IncomingMessage>> Call(MethodId method, OutgoingMessage request,
                                                          Placement placement, CallOptions options);

  // Memory to produce a segment of a request in: sending it on the present connection copies
  // nothing.
  SegmentBuffer Allocate(size_t bytes);

  // What the peer said when the present connection opened; null while there is none.
  // Lifetime: until the executor's thread does something else.
  const Hello* peer() const;

  // Fails calls in flight with CANCELLED and closes the connection. When those have returned,
  // nothing of the client is left on the executor, unless the address's name is being looked up.
  void Stop();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace simurgh::rpc
