#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "absl/container/flat_hash_map.h"

#include "rpc/async.h"
#include "rpc/client.h"
#include "rpc/connection.h"
#include "rpc/control.h"
#include "rpc/sharing.h"
#include "rpc/timers.h"
#include "rpc/window.h"

namespace simurgh::rpc {

// The client's side of one connection.
//
// Threads: that of its executor. Lifetime: the reading coroutine keeps it until the connection
// ends.
class ClientSession : public std::enable_shared_from_this<ClientSession> {
 public:
  // Connects and exchanges HELLOs.
  // Errors: UNAVAILABLE; DEADLINE_EXCEEDED; the server's ERROR; INVALID_ARGUMENT when the HELLOs do
  // not match.
  [[nodiscard]] static awaitable<StatusOr<std::shared_ptr<ClientSession>>> Open(
      const std::string& address, const Hello& hello, const ClientOptions& options,
      const ObserverLink& observer, Clock::time_point deadline);
  // Exchanges HELLOs over a connected stream. sharing: passes its files over the stream.
  [[nodiscard]] static awaitable<StatusOr<std::shared_ptr<ClientSession>>> Introduce(
      std::shared_ptr<Stream> stream, SharingHandshake sharing, const std::string& address,
      const Hello& hello, const ClientOptions& options, const ObserverLink& observer,
      Clock::time_point deadline);
  ClientSession(std::shared_ptr<Connection> connection, PeerHello peer,
                Clock::duration stall_timeout);

  // Sends a request and receives its response. Moves from `request` and `placement`. After it
  // returns, the session does not write to the destinations.
  // Requires usable() and a caller whose coroutine does not throw on cancellation.
  // Lifetime: the arguments outlive the call.
  [[nodiscard]] awaitable<StatusOr<IncomingMessage>> Exchange(uint32_t method,
                                                              OutgoingMessage& request,
                                                              Placement& placement,
                                                              const CallOptions& options);

  // Returns whether new calls can start.
  bool usable() const { return connection_->open() && !going_away_; }
  // The error of calls that end with the connection.
  Status Lost() const;
  // The time since which no call can start; now if one can.
  Clock::time_point ended() const { return ended_.value_or(Clock::now()); }
  // Returns whether the server has answered a call.
  bool has_answered() const { return has_answered_; }
  const Hello& peer() const { return peer_.hello; }
  // Null when no memory is shared.
  Sharing* sharing() const { return connection_->sharing().get(); }

  // Closes the connection and fails the calls in flight with `reason`.
  void Close(const Status& reason);

 private:
  // A call in flight, in the coroutine frame of Exchange().
  struct Call {
    Call(ClientSession& of, Placement destination, Clock::time_point until)
        : session(of), id(++of.last_id_), placement(std::move(destination)), deadline(until) {
      session.calls_.emplace(id, this);
      session.deadlines_.Note(deadline);
    }
    ~Call() {
      session.calls_.erase(id);
      if (payload != nullptr) session.connection_->Abandon(*payload);
      if (cost != 0) session.owed_.emplace(id, cost);
      session.CloseIfDone();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    ClientSession& session;
    const uint64_t id;
    Placement placement;
    const Clock::time_point deadline;
    Suspension answered;
    uint64_t cost = 0;  // Bytes of the server's window that the request holds.
    std::shared_ptr<IncomingPayload> payload;  // The response, while it arrives.
    Outbox::Ticket frame;
    std::optional<StatusOr<IncomingMessage>> outcome;
  };

  [[nodiscard]] awaitable<void> Run();
  [[nodiscard]] awaitable<Status> ReadFrames();
  // The message that the frame's payload belongs to; null: skip the payload.
  // Errors: DATA_LOSS for a frame that a server must not send.
  StatusOr<std::shared_ptr<IncomingPayload>> OnFrame(IncomingFrame&& frame);
  StatusOr<std::shared_ptr<IncomingPayload>> OnResponse(IncomingFrame&& frame);
  Status OnError(const IncomingFrame& frame);
  // Frees the request's share of the window. Returns the call, or null if it has ended.
  Call* Answered(uint64_t id);
  Call* Find(uint64_t id) {
    const auto found = calls_.find(id);
    return found == calls_.end() ? nullptr : found->second;
  }
  // Closes the connection after GOAWAY and the last call.
  void CloseIfDone();
  void NoteEnd() {
    if (!ended_) ended_ = Clock::now();
  }
  // Stops writing the request of a call that was answered before. Waits for `unowned` bytes until
  // the deadline, then closes the connection.
  [[nodiscard]] awaitable<void> Settle(const Call& call, bool unowned);
  void SendCancel(uint64_t id) {
    connection_->Send({.header = {.kind = FrameKind::kCancel, .request_id = id}});
  }
  // The error of a call that ends without a result.
  Status Expiry(Clock::time_point deadline) const;
  // Withdraws the request of a call that ends without a result.
  void Abandon(Call& call, bool unowned);
  void Complete(uint64_t id, StatusOr<IncomingMessage> outcome);
  void EndIncomingPayload(uint64_t id) {
    if (incoming_payloads_.erase(id) != 0 && incoming_payloads_.empty()) ++chunk_rounds_;
  }
  // Resumes the calls whose deadline has passed; returns the earliest other deadline.
  Clock::time_point ExpireCalls(Clock::time_point now);
  // Closes a stalled connection; returns when to check again.
  Clock::time_point CheckFlow(Clock::time_point now);

  const std::shared_ptr<Connection> connection_;
  const PeerHello peer_;
  absl::flat_hash_map<uint64_t, Call*> calls_;
  uint64_t last_id_ = 0;
  DeadlineTimer deadlines_;  // Times out calls_.
  const Clock::duration stall_timeout_;
  DeadlineTimer flow_timer_;
  Window window_;                                // The server's.
  std::unordered_map<uint64_t, uint64_t> owed_;  // Cost of abandoned calls, by id.
  std::unordered_map<uint64_t, std::shared_ptr<IncomingPayload>>
      incoming_payloads_;      // Chunked responses, by id.
  uint64_t chunk_rounds_ = 0;  // Times that incoming_payloads_ became empty.
  bool going_away_ = false;
  bool has_answered_ = false;
  std::optional<Clock::time_point> ended_;
};

}  // namespace simurgh::rpc
