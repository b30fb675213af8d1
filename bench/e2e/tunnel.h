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

  // Makes the device `slow0` in the namespace, as `ip netns add` has made it, with this IPv4
  // address (host order) in a network of 256, and sets it and `lo` up. The thread is in its former
  // namespace afterwards. Errors: PERMISSION_DENIED without the rights of root; NOT_FOUND;
  // UNAVAILABLE, with the reason.
  static StatusOr<Tunnel> Open(const std::string& network_namespace, uint32_t address);

  Tunnel(Tunnel&& other) noexcept;
  Tunnel& operator=(Tunnel&&) = delete;
  ~Tunnel();

  int descriptor() const { return descriptor_; }
  uint32_t address() const { return address_; }

  // A packet that the namespace has sent, in buffer; 0 bytes if there is none now.
  size_t Read(std::span<std::byte> buffer) const;

  // Hands a packet to the namespace; it is lost if the device takes no more.
  void Write(std::span<const std::byte> packet) const;

 private:
  Tunnel(int descriptor, uint32_t address) : descriptor_(descriptor), address_(address) {}

  int descriptor_;
  uint32_t address_;
};

}  // namespace simurgh::bench
