#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "absl/container/flat_hash_map.h"

#include "rpc/client.h"
#include "rpc/connection.h"
#include "rpc/control.h"
#include "rpc/deadline_timer.h"
#include "rpc/sharing_handshake.h"
#include "rpc/suspension.h"
#include "rpc/window.h"

namespace simurgh::rpc {

// A client's side of one connection, from its HELLO to its end.
//
// Threads: one, that of its executor. Lifetime: its reader keeps it until the connection ends.
class ClientSession : public std::enable_shared_from_this<ClientSession> {
 public:
  // Connects and introduces itself.
  // Errors: UNAVAILABLE, DEADLINE_EXCEEDED; the peer's own, when it refuses; INVALID_ARGUMENT when
  // its HELLO does not fit.
  [[nodiscard]] static awaitable<StatusOr<std::shared_ptr<ClientSession>>> Open(
      const std::string& address, const Hello& hello, const ClientOptions& options,
      const ObserverLink& observer, Clock::time_point deadline);
  // The same over a stream that is connected to this address; sharing: whose files it passes.
  [[nodiscard]] static awaitable<StatusOr<std::shared_ptr<ClientSession>>> Introduce(
      std::unique_ptr<Stream> stream, SharingHandshake sharing, const std::string& address,
      const Hello& hello, const ClientOptions& options, const ObserverLink& observer,
      Clock::time_point deadline);
  ClientSession(std::shared_ptr<Connection> connection, PeerHello peer,
                Clock::duration stall_timeout);

  // One request and its response. Requires usable(). When it returns, nothing writes to the
  // response's places any more. Expects that cancellation does not throw in the caller's coroutine.
  // Takes what request and placement hold; all arguments must live until it returns.
  [[nodiscard]] awaitable<StatusOr<IncomingMessage>> Exchange(uint32_t method,
                                                              OutgoingMessage& request,
                                                              Placement& placement,
                                                              const CallOptions& options);

  // Whether new calls may start here.
  bool usable() const { return connection_->open() && !going_away_; }
  // What a call is told that cannot go on because the connection has ended or is about to.
  Status Lost() const;
  // Since when no call may start; now if that is still possible.
  Clock::time_point ended() const { return ended_.value_or(Clock::now()); }
  // Whether the peer has ever answered a call.
  bool has_answered() const { return has_answered_; }
  const Hello& peer() const { return peer_.hello; }
  // Null when no memory is shared.
  Sharing* sharing() const { return connection_->sharing().get(); }

  // Closes the connection and fails the calls in flight with `reason`.
  void Close(const Status& reason);

 private:
  // A call in flight; lives in the frame of Exchange().
  struct Call {
    Call(ClientSession& session, Placement placement, Clock::time_point deadline);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    ClientSession& session;
    const uint64_t id;
    Placement placement;
    const Clock::time_point deadline;
    Suspension answered;
    uint64_t cost = 0;  // What it takes of the peer's window; 0 once that is given back.
    std::shared_ptr<IncomingPayload> landing;  // Its response, while that is arriving.
    Outbox::Ticket frame;
    std::optional<StatusOr<IncomingMessage>> outcome;
  };

  [[nodiscard]] awaitable<void> Run();
  [[nodiscard]] awaitable<Status> ReadFrames();
  // Where the payload of the frame goes; null for nowhere.
  // Errors: DATA_LOSS for a frame that may not come.
  StatusOr<std::shared_ptr<IncomingPayload>> OnFrame(IncomingFrame&& frame);
  StatusOr<std::shared_ptr<IncomingPayload>> OnResponse(IncomingFrame&& frame);
  Status OnError(const IncomingFrame& frame);
  // Gives back what the request took of the window; the call if anybody waits for it.
  Call* Answered(uint64_t id);
  Call* Find(uint64_t id);
  // Closes the connection of a peer that is going away when no call needs it any more.
  void CloseIfDone();
  void NoteEnd();
  // Makes sure of a call that was answered before its request had been written whole that nobody
  // reads its bytes any more; closes the connection when that takes until the deadline.
  [[nodiscard]] awaitable<void> Settle(const Call& call, bool borrowed);
  void SendCancel(uint64_t id);
  // Why a wait has ended without a result.
  Status Expiry(Clock::time_point deadline) const;
  void GiveUp(Call& call, bool borrowed);
  void Complete(uint64_t id, StatusOr<IncomingMessage> outcome);
  void CompleteIncomingPayload(IncomingPayload& landing);
  void EndIncomingPayload(uint64_t id);

  std::shared_ptr<Connection> connection_;
  const PeerHello peer_;
  absl::flat_hash_map<uint64_t, Call*> calls_;
  // Wakes the calls whose deadline has passed; returns the earliest of the others.
  Clock::time_point ExpireCalls(Clock::time_point now);
  // Cuts off a peer that stands still; returns when to look again.
  Clock::time_point CheckFlow(Clock::time_point now);

  uint64_t last_id_ = 0;
  DeadlineTimer deadlines_;  // Of calls_.
  const Clock::duration stall_timeout_;
  DeadlineTimer looks_;  // At the flow.
  FlowWatch frames_;
  FlowWatch chunks_;                             // Small frames are no excuse.
  Window window_;                                // The peer's.
  std::unordered_map<uint64_t, uint64_t> owed_;  // Cost of calls given up, by id.
  std::unordered_map<uint64_t, std::shared_ptr<IncomingPayload>>
      incoming_payloads_;      // Responses in chunks, by id.
  uint64_t times_landed_ = 0;  // All of them.
  bool going_away_ = false;
  bool has_answered_ = false;
  std::optional<Clock::time_point> ended_;
};

}  // namespace simurgh::rpc
