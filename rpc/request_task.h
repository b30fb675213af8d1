#pragma once

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

// One request from its head to its answer, with the coroutine that handles it. After the answer the
// coroutine waits for another request: to start one for each would cost as much as the rest of a
// small call.
//
// Threads: one, that of the session's executor.
struct RequestTask {
  const Method* method = nullptr;
  uint64_t id = 0;
  Trace trace;
  uint64_t bytes = 0;  // Metadata and payload.
  uint64_t cost = 0;   // Of the peer's window.
  Clock::time_point start;
  Clock::time_point deadline;
  std::optional<IncomingPayload> landing;  // Until the handler has begun.
  Gate::Pass unanswered;                   // Goes with the answer.
  Gate::Pass in_handler;                   // From the handler's beginning to its end.
  std::shared_ptr<ServerSession> session;  // Given to the coroutine when the handler is to begin.
  bool running = false;                    // From then on.

  asio::cancellation_signal cancel;
  bool spawned = false;
  bool ended = false;  // No further request.
  Suspension request;  // Resumed when there is one.
};

}  // namespace simurgh::rpc
