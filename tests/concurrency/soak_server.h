#pragma once

// The servers of a soak test.

#include <memory>
#include <string>

#include "base/aligned_buffer.h"
#include "rpc/server.h"
#include "tests/concurrency/soak_keepsakes.h"
#include "tests/concurrency/soak_ledger.h"

namespace simurgh::rpc {

inline constexpr MethodId kSoakMethod{.number = 1, .name = "soak"};
inline constexpr MethodId kSoakUnknownMethod{.number = 2, .name = "nobody"};

Hello SoakHello(std::string role);

// A server that follows the plans and checks every request.
//
// Threads: that of the executor. Lifetime: drain it before it is destroyed.
class SoakServer {
 public:
  SoakServer(asio::any_io_executor executor, uint64_t seed, Ledger& ledger,
             const ServerOptions& options = {});

  Status Listen(const std::string& address) { return server_.Listen(address); }
  std::string address() const { return server_.address(); }
  // Requests over connections with shared memory.
  uint64_t sharing_requests() const { return sharing_requests_; }
  [[nodiscard]] awaitable<void> Drain(Clock::time_point deadline) {
    return server_.Drain(deadline);
  }

 private:
  StatusOr<Placed> PlaceSegments(std::span<const std::byte> metadata,
                                 std::span<const uint64_t> lengths);
  [[nodiscard]] awaitable<StatusOr<OutgoingMessage>> Handle(Request request);
  OutgoingMessage Answer(const CallPlan& plan, uint64_t id, Request request);

  const asio::any_io_executor executor_;
  const uint64_t seed_;
  Ledger& ledger_;
  BufferPool buffers_;
  Keepsakes keepsakes_;
  uint64_t sharing_requests_ = 0;
  Server server_;
};

}  // namespace simurgh::rpc
