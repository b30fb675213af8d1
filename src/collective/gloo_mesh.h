#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"

#include "collective/gloo_line.h"
#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/collective/gloo_collective.h"

namespace gloo::transport {
class Context;
class Device;
class UnboundBuffer;
}  // namespace gloo::transport

namespace simurgh {

// Connections between all ranks, and who is to blame when they fail. All that calls Gloo.
//
// A rank that gives up says so to all others before its connections close: so a connection that
// closes with such a farewell names the rank that its rank blames, one without names its own.
//
// Threads: see Collective.
class GlooMesh {
 public:
  // Errors: of CreateGlooCollective.
  static StatusOr<std::unique_ptr<GlooMesh>> Connect(const GlooOptions& options,
                                                     const ExchangeAddresses& exchange);
  ~GlooMesh();

  uint32_t rank() const { return options_.rank; }
  uint32_t ranks() const { return options_.ranks; }

  // What all ranks tell one another at once, by rank; this one's own are left alone.
  struct Parts {
    explicit Parts(uint32_t ranks) : outgoing(ranks), expected(ranks), incoming(ranks) {}

    std::vector<std::span<const std::byte>> outgoing;
    std::vector<size_t>
        expected;  // Bytes that come: as long as their counterpart at the other end.
    std::vector<std::span<const std::byte>> incoming;
  };

  // Sends the outgoing parts, calls `meanwhile`, waits for the incoming ones and sets them; they
  // stay until the channel's next exchange.
  Status Exchange(Channel channel, Parts& parts, absl::FunctionRef<void()> meanwhile = [] {});

  // For who waits for another rank by other means: OK while the channel may be used, until when one
  // may be silent from now on, and what everything ends with when one has been, or is gone.
  Status Check(Channel channel);
  std::chrono::steady_clock::time_point DeadlineOf(Channel channel) const;
  Status FailAsSilent(uint32_t peer);
  Status FailAsGone(uint32_t peer, const std::string& what);
  // tell: called when everything has ended and the other ranks have been told why, by whoever ends
  // it, once; calls nothing of this. Or null.
  void OnFailure(std::function<void()> tell);

  // See Collective.
  void Close(Channel channel);
  void Abort(const Status& reason);

 private:
  using Clock = std::chrono::steady_clock;
  using Buffer = gloo::transport::UnboundBuffer;

  // What ends everything. Not a Status: those are not shared among threads.
  struct Failure {
    absl::StatusCode code = absl::StatusCode::kUnknown;
    std::string message;

    Status status() const { return Status(code, message); }
  };

  // Whom a channel waits for.
  struct Waiting {
    Buffer* buffer = nullptr;
    bool is_send = false;
    uint32_t peer = 0;
    Clock::time_point deadline = Clock::time_point::max();
  };

  struct Farewell;

  explicit GlooMesh(const GlooOptions& options);

  StatusOr<std::shared_ptr<gloo::transport::Device>> Listen() const;
  Status Open(const ExchangeAddresses& exchange);
  void ExpectFarewells();
  void OpenLines();
  Status Meet();

  // Of a channel: what a call on it ends with before it has begun to wait.
  Status StatusOf(Channel channel) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends a wait.
  static void Interrupt(const Waiting& waiting);
  // Null: there is nothing to wait for.
  Status WaitFor(Channel channel, Buffer* buffer, bool is_send, uint32_t peer);
  // A call of Gloo's that fails ends all.
  Status Try(uint32_t peer, absl::FunctionRef<void()> call);
  void EndWith(const Failure& failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first reason stays; it is told to the other ranks.
  Status Fail(Failure failure);
  Failure BlameFor(uint32_t peer, const std::string& what);
  // Whether the rank has said farewell, until the deadline.
  bool HearFarewell(uint32_t peer, Clock::time_point deadline);
  // Tells the other ranks why everything ends here.
  void SayFarewell(const Failure& failure);
  void SendFarewells(const Failure& failure, Clock::time_point deadline);
  // A thread's: fails what waits for too long.
  void Watch();

  const GlooOptions options_;
  std::shared_ptr<gloo::transport::Context> context_;
  std::vector<std::unique_ptr<Farewell>> farewells_;  // By rank; null for this one.
  // By channel and rank; null for this one.
  std::array<std::vector<std::unique_ptr<GlooLine>>, kChannels> lines_;
  // The other ranks, in a turn of its own for every rank, so that no one is everybody's first.
  std::vector<uint32_t> peers_;

  Mutex mutex_;
  CondVar changed_;
  std::array<Waiting, kChannels> waiting_ ABSL_GUARDED_BY(mutex_);
  std::array<bool, kChannels> closed_ ABSL_GUARDED_BY(mutex_){};
  std::optional<Failure> failure_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_failure_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watch_;
};

}  // namespace simurgh
