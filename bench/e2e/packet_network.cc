#include "bench/e2e/packet_network.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <optional>
#include <span>
#include <utility>

#include <poll.h>
#include <sys/signalfd.h>

#include "bench/e2e/tunnel.h"
#include "rpc/testing/proxy.h"
#include "simurgh/base/file_descriptor.h"

namespace simurgh::bench {
namespace {

using Clock = std::chrono::steady_clock;
using rpc::testing::DelayLine;

constexpr uint32_t kNetwork = 0x0A4D0000;  // 10.77.0.0
constexpr size_t kMaxBytesInFlight = size_t{1} << 28;
constexpr size_t kDestinationOffset = 16;  // In a header of IPv4.
constexpr size_t kHeaderBytes = 20;

using Packet = std::vector<std::byte>;

// Each host sends through its own line.
class Network {
 public:
  Network(std::vector<Tunnel> hosts, Clock::duration delay, double bytes_per_second)
      : hosts_(std::move(hosts)) {
    for (size_t i = 0; i < hosts_.size(); ++i) {
      lines_.emplace_back(delay, bytes_per_second, kMaxBytesInFlight);
    }
  }

  // Returns when `end` is readable.
  void Run(int end) {
    std::vector<pollfd> waits{{end, POLLIN, 0}};
    for (const Tunnel& host : hosts_) waits.push_back({host.descriptor(), POLLIN, 0});
    while (waits[0].revents == 0) {
      const std::optional<timespec> patience = UntilNext(Clock::now());
      ::ppoll(waits.data(), waits.size(), patience ? &*patience : nullptr, nullptr);
      for (size_t i = 0; i < hosts_.size(); ++i) Collect(i);
      Deliver(Clock::now());
    }
  }

 private:
  // Queues the packets that the host has sent.
  void Collect(size_t host) {
    for (size_t got = hosts_[host].Read(buffer_); got > 0; got = hosts_[host].Read(buffer_)) {
      lines_[host].Push(Clock::now(), got, Packet(buffer_.begin(), buffer_.begin() + got));
    }
  }

  void Deliver(Clock::time_point now) {
    for (DelayLine<Packet>& line : lines_) {
      for (auto due = line.due(); due && *due <= now; due = line.due()) Route(line.Pop());
    }
  }

  void Route(const Packet& packet) {
    if (packet.size() < kHeaderBytes || std::to_integer<int>(packet[0]) >> 4 != 4) return;
    uint32_t destination = 0;
    for (size_t i = 0; i < 4; ++i) {
      destination = destination << 8 | std::to_integer<uint32_t>(packet[kDestinationOffset + i]);
    }
    const uint32_t host = destination - kNetwork - 1;
    if (host < hosts_.size()) hosts_[host].Write(packet);
  }

  // Time until the next packet is due; nothing if none is queued.
  std::optional<timespec> UntilNext(Clock::time_point now) const {
    std::optional<Clock::time_point> first;
    for (const DelayLine<Packet>& line : lines_) {
      const auto due = line.due();
      if (due && (!first || *due < *first)) first = due;
    }
    if (!first) return std::nullopt;
    const auto left = std::max<int64_t>(0, std::chrono::nanoseconds(*first - now).count());
    return timespec{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
  }

  std::vector<Tunnel> hosts_;
  std::vector<DelayLine<Packet>> lines_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(Tunnel::kMaxPacketBytes);
};

// Readable after SIGTERM or SIGINT, which no longer end the process.
FileDescriptor EndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return FileDescriptor(::signalfd(-1, &signals, SFD_CLOEXEC));
}

}  // namespace

Status CarryPackets(const std::vector<std::string>& namespaces, Clock::duration delay,
                    double bytes_per_second) {
  const FileDescriptor end = EndSignals();
  std::vector<Tunnel> hosts;
  for (const std::string& name : namespaces) {
    const uint32_t address = kNetwork + static_cast<uint32_t>(hosts.size()) + 1;
    SIMURGH_ASSIGN_OR_RETURN(Tunnel host, Tunnel::Open(name, address));
    hosts.push_back(std::move(host));
  }
  std::cout << "ready" << std::endl;
  Network(std::move(hosts), delay, bytes_per_second).Run(end.number());
  return absl::OkStatus();
}

}  // namespace simurgh::bench
