#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rpc/async.h"
#include "rpc/transport.h"

namespace simurgh::rpc::testing {

// One direction of a network link: packets leave in order, after serialization at the link's rate
// and a fixed delay.
//
// Threads: one.
template <typename Packet>
class DelayLine {
 public:
  using Clock = std::chrono::steady_clock;

  // Requires bytes_per_second > 0. max_bytes: capacity; further packets are lost.
  DelayLine(Clock::duration delay, double bytes_per_second, size_t max_bytes)
      : delay_(delay), bytes_per_second_(bytes_per_second), max_bytes_(max_bytes) {}

  bool HasRoom(size_t bytes) const { return bytes_ + bytes <= max_bytes_; }

  // Returns false if the packet is lost. Requires `now` not to decrease.
  bool Push(Clock::time_point now, size_t bytes, Packet packet) {
    if (!HasRoom(bytes)) return false;
    const std::chrono::duration<double> sending(static_cast<double>(bytes) / bytes_per_second_);
    free_ = std::max(free_, now) + std::chrono::duration_cast<Clock::duration>(sending);
    bytes_ += bytes;
    inside_.push_back({free_ + delay_, bytes, std::move(packet)});
    return true;
  }

  // The time when the next packet leaves, if any.
  std::optional<Clock::time_point> due() const {
    if (inside_.empty()) return std::nullopt;
    return inside_.front().due;
  }

  // Removes the next packet. Requires due().
  Packet Pop() {
    Packet packet = std::move(inside_.front().packet);
    bytes_ -= inside_.front().bytes;
    inside_.pop_front();
    return packet;
  }

 private:
  struct Inside {
    Clock::time_point due;
    size_t bytes;
    Packet packet;
  };

  const Clock::duration delay_;
  const double bytes_per_second_;
  const size_t max_bytes_;
  Clock::time_point free_;  // The end of serialization of all packets.
  size_t bytes_ = 0;
  std::deque<Inside> inside_;
};

// A proxy between clients and a server.

// Accepts connections and connects each to the target; subclasses forward the bytes.
//
// Threads: that of the executor. Lifetime: connections may outlive the proxy.
class Proxy {
 public:
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  // address: see rpc/address.h.
  Status Listen(const std::string& address);
  std::string address() const { return listener_->address(); }

  // Sets the target of later connections.
  void SetTarget(const std::string& address);

 protected:
  // Takes ownership of both ends of a connection.
  using Carry = std::function<void(Socket client, Socket server)>;

  Proxy(asio::any_io_executor executor, Carry carry);
  ~Proxy();

  // The end that has stopped sending can still receive.
  static void EndDirection(Socket& from, Socket& to);
  static void CloseBoth(Socket& one, Socket& other);

 private:
  struct Route;

  [[nodiscard]] static awaitable<void> AcceptLoop(std::shared_ptr<Route> route,
                                                  std::shared_ptr<Listener> listener);
  [[nodiscard]] static awaitable<void> Serve(std::shared_ptr<Route> route, Socket client);

  const asio::any_io_executor executor_;
  const std::shared_ptr<Route> route_;
  std::shared_ptr<Listener> listener_;
};

// A link with delay and limited bandwidth.

// Forwards bytes in both directions with a delay and a maximum rate. Each direction of a connection
// is a separate link. A sender that exceeds the rate waits, as for a receiver that does not read.
// The end of a direction is delayed like its bytes; a reset is not.
//
// Threads, Lifetime: as Proxy.
// Cost: one more copy of every byte; for each direction, delay × rate + 1 MiB of memory.
class DelayingProxy : public Proxy {
 public:
  // Requires bytes_per_second > 0.
  DelayingProxy(asio::any_io_executor executor, Clock::duration delay, double bytes_per_second);

 private:
  class Link;
};

// A link that breaks.

// Forwards bytes in both directions, with the files of a handshake, and cuts every connection after
// a random number of bytes: by reset, by closing both ends, or by ending one direction.
//
// Threads, Lifetime: as Proxy.
class KillingProxy : public Proxy {
 public:
  static constexpr uint64_t kHelloBytes = 600;  // Both HELLOs, approximately.

  // mean_bytes: of both directions until the cut. One connection in 16 is cut within the first
  // handshake_bytes.
  KillingProxy(asio::any_io_executor executor, uint64_t seed, double mean_bytes,
               uint64_t handshake_bytes = kHelloBytes);

  // The number of connections cut.
  uint64_t kills() const;

 private:
  struct Core;
  class Link;

  KillingProxy(asio::any_io_executor executor, const std::shared_ptr<Core>& core);

  const std::shared_ptr<Core> core_;
};

}  // namespace simurgh::rpc::testing
