#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

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

  // Sends outgoing[r] to every other rank r, and receives incoming[r] from it; all ranks at once. A
  // span is as long as its counterpart at the other end; own ones are left alone.
  // message: of the channel's messages that may be on their way at the same time, which one.
  Status Exchange(Channel channel, uint32_t message,
                  std::span<const std::span<const std::byte>> outgoing,
                  std::span<const std::span<std::byte>> incoming);

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
  Status Meet();

  // Of a channel: what a call on it ends with before it has begun to wait.
  Status StatusOf(Channel channel) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends a wait.
  static void Interrupt(const Waiting& waiting);
  Status WaitFor(Channel channel, Buffer& buffer, bool is_send, uint32_t peer);
  // The first reason stays; it is told to the other ranks.
  Status Fail(Failure failure);
  Failure BlameFor(uint32_t peer, const std::string& what);
  // Whether the rank has said farewell, until the deadline.
  bool HearFarewell(uint32_t peer, Clock::time_point deadline);
  void SendFarewells(const Failure& failure);
  // A thread's: fails what waits for too long.
  void Watch();

  const GlooOptions options_;
  std::shared_ptr<gloo::transport::Context> context_;
  std::vector<std::unique_ptr<Farewell>> farewells_;  // By rank; null for this one.

  Mutex mutex_;
  CondVar changed_;
  std::array<Waiting, kChannels> waiting_ ABSL_GUARDED_BY(mutex_);
  std::array<bool, kChannels> closed_ ABSL_GUARDED_BY(mutex_){};
  std::optional<Failure> failure_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watch_;
};

}  // namespace simurgh
