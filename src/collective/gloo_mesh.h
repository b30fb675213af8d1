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

// Connections between all ranks, and the rank at fault when they fail. Wraps all calls of Gloo.
//
// A rank that stops sends the others a farewell, which names the rank at fault, before it closes
// its connections. If a connection closes without a farewell, its rank is at fault.
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

  // The messages of one exchange, by rank; those of this rank are ignored.
  struct Parts {
    explicit Parts(uint32_t ranks, std::span<const std::byte> each_outgoing = {},
                   size_t each_expected = 0)
        : outgoing(ranks, each_outgoing), expected(ranks, each_expected), incoming(ranks) {}

    std::vector<std::span<const std::byte>> outgoing;
    std::vector<size_t> expected;  // Bytes of the incoming messages.
    std::vector<std::span<const std::byte>> incoming;
  };

  // Sends the outgoing parts, calls `meanwhile`, waits for the incoming parts and sets them.
  // Lifetime: incoming parts are valid until the channel's next exchange.
  Status Exchange(Channel channel, Parts& parts, absl::FunctionRef<void()> meanwhile = [] {});

  // For a wait by other means than Exchange: OK while the channel is usable; the deadline of a wait
  // that starts now; and how to fail when a rank misses it or disconnects.
  Status Check(Channel channel);
  std::chrono::steady_clock::time_point DeadlineOf(Channel channel) const;
  Status FailAsSilent(uint32_t peer);
  Status FailAsGone(uint32_t peer, const std::string& what);
  // listener: called once after the first failure, when the farewells have been sent; must not call
  // this object. Null removes it.
  void OnFailure(std::function<void()> listener);

  // See Collective.
  void Close(Channel channel);
  void Abort(const Status& reason);

 private:
  using Clock = std::chrono::steady_clock;
  using Buffer = gloo::transport::UnboundBuffer;

  // The first error. Not a Status, which threads must not share.
  struct Failure {
    absl::StatusCode code = absl::StatusCode::kUnknown;
    std::string message;

    Status status() const { return Status(code, message); }
  };

  // A channel's present wait.
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
  // Also posts the buffers of the farewells.
  void OpenLines();

  // OK unless the mesh has failed or the channel is closed.
  Status StatusOf(Channel channel) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Interrupt(const Waiting& waiting);
  // Returns at once if buffer is null.
  Status WaitFor(Channel channel, Buffer* buffer, bool is_send, uint32_t peer);
  // Calls Gloo; an exception fails the mesh and blames the peer.
  Status Try(uint32_t peer, absl::FunctionRef<void()> call);
  void EndWith(const Failure& failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Records the first failure and sends it to the other ranks. Returns the recorded one.
  Status Fail(const Failure& failure);
  std::string NameOf(uint32_t rank) const;  // For messages.
  // Waits for a rank's farewell until the deadline. Returns whether it was received.
  bool ReceiveFarewell(uint32_t peer, Clock::time_point deadline);
  // Sends farewells and waits for the others' farewells.
  void ExchangeFarewells(const Failure& failure);
  void SendFarewells(const Failure& failure, Clock::time_point deadline);
  // Runs on a thread: fails the mesh when a wait exceeds its deadline.
  void Watch();

  const GlooOptions options_;
  std::shared_ptr<gloo::transport::Context> context_;
  std::vector<std::unique_ptr<Farewell>> farewells_;  // By rank; null for this one.
  // By channel and rank; null for this one.
  std::array<std::vector<std::unique_ptr<GlooLine>>, kChannels> lines_;
  // The other ranks. Each rank starts with the next one, which spreads the load.
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
