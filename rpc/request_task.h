#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "rpc/async.h"
#include "rpc/gate.h"
#include "rpc/incoming_payload.h"
#include "rpc/server.h"
#include "rpc/suspension.h"

namespace simurgh::rpc {

class ServerSession;

// Raises `largest` to at least `bytes`. Threads: any.
inline void Raise(std::atomic<uint64_t>& largest, uint64_t bytes) {
  uint64_t before = largest;
  while (before < bytes && !largest.compare_exchange_weak(before, bytes)) continue;
}

// A request with the coroutine that handles it. After the answer the coroutine waits for another
// request, because starting one costs as much as the rest of a small call.
//
// Threads: that of the session's executor.
struct RequestTask {
  const Method* method = nullptr;
  uint64_t id = 0;
  Trace trace;
  uint64_t bytes = 0;         // Metadata and payload.
  uint64_t cost = 0;          // Bytes of the window.
  Clock::time_point start;    // The request arrived.
  Clock::time_point handled;  // The handler began.
  Clock::time_point deadline;
  std::optional<IncomingPayload> payload;  // Until the handler begins.
  std::shared_ptr<void> context;           // Likewise; of the placement.
  Gate::Pass unanswered;                   // Until the answer is written.
  WindowShare answer_share;                // Of the server's memory, until the answer is written.
  Gate::Pass in_handler;                   // While the handler runs.
  std::shared_ptr<ServerSession> session;  // Passed to the coroutine when the handler begins.
  bool running = false;                    // The handler has begun.

  asio::cancellation_signal cancel;
  bool spawned = false;
  bool ended = false;  // No further request.
  Suspension request;  // Resumed for the next request.
};

}  // namespace simurgh::rpc
