#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "simurgh/base/status.h"

namespace simurgh::bench {

// The network device of a network namespace whose packets this process carries.
//
// Source: Linux, Documentation/networking/tuntap.rst.
// Threads: one.
class Tunnel {
 public:
  static constexpr size_t kMaxPacketBytes = 65'000;

  // Makes the device `slow0` in a namespace of `ip netns add`, with this IPv4 address (host order,
  // /24), and sets it and `lo` up. The thread stays in its namespace. Errors: PERMISSION_DENIED
  // without root rights; NOT_FOUND; UNAVAILABLE, with the reason.
  static StatusOr<Tunnel> Open(const std::string& network_namespace, uint32_t address);

  Tunnel(Tunnel&& other) noexcept;
  Tunnel& operator=(Tunnel&&) = delete;
  ~Tunnel();

  int descriptor() const { return descriptor_; }
  uint32_t address() const { return address_; }

  // Reads a packet that the namespace has sent; returns 0 if there is none.
  size_t Read(std::span<std::byte> buffer) const;

  // Sends a packet to the namespace; drops it if the device is full.
  void Write(std::span<const std::byte> packet) const;

 private:
  Tunnel(int descriptor, uint32_t address) : descriptor_(descriptor), address_(address) {}

  int descriptor_;
  uint32_t address_;
};

}  // namespace simurgh::bench
