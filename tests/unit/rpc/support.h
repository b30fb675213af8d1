#pragma once

// Shared by the tests: messages, placements and an echo method.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "tests/support/rpc/loop.h"

namespace simurgh::rpc {

inline constexpr MethodId kEcho{.number = 1, .name = "echo"};

inline Hello TestHello(std::string role) {
  return {.cluster = "test",
          .role = std::move(role),
          .index = 3,
          .run = 7,
          .incarnation = 9,
          .configuration = "tables.0.dim = 8\n",
          .map_version = 13};
}

struct CountingObserver : Observer {
  void OnCallEnd(const CallReport&) override { ++calls; }
  void OnBytesSent(uint64_t bytes) override { sent += bytes; }
  void OnBytesReceived(uint64_t bytes) override { received += bytes; }
  void OnPayloadCopied(uint64_t bytes) override { copied += bytes; }
  void OnSmallPayloadCopied(uint64_t bytes) override { small_copied += bytes; }
  uint64_t calls = 0, sent = 0, received = 0, copied = 0, small_copied = 0;
};

inline Clock::time_point In(std::chrono::milliseconds time) { return Clock::now() + time; }
inline Clock::time_point Soon() { return In(std::chrono::seconds(20)); }

using Bytes = std::vector<std::byte>;

inline Bytes RandomBytes(Random& random, size_t count) {
  Bytes bytes(count);
  for (size_t at = 0; at < count; at += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, std::min(sizeof word, count - at));
  }
  return bytes;
}

// Owns its bytes.
inline OutgoingSegment Owned(Bytes bytes) {
  const auto owner = std::make_shared<const Bytes>(std::move(bytes));
  return {.bytes = *owner, .owner = owner};
}

inline OutgoingMessage Message(Bytes metadata, const std::vector<Bytes>& segments = {}) {
  OutgoingMessage message;
  message.metadata = Owned(std::move(metadata));
  for (const Bytes& segment : segments) message.segments.push_back(Owned(segment));
  return message;
}

// A vector for each segment.
inline Placement IntoVectors() {
  return [](std::span<const std::byte> /*metadata*/, std::span<const uint64_t> lengths) {
    std::vector<IncomingSegment> destinations;
    for (const uint64_t length : lengths) {
      const auto owner = std::make_shared<Bytes>(length);
      destinations.push_back({.bytes = *owner, .owner = owner});
    }
    return StatusOr<std::vector<IncomingSegment>>(std::move(destinations));
  };
}

// Answers with the request.
inline Method EchoMethod() {
  return {.id = kEcho,
          .placement = IntoVectors(),
          .handle = [](Request request) -> awaitable<StatusOr<OutgoingMessage>> {
            OutgoingMessage response;
            response.metadata = Owned(std::move(request.message.metadata));
            for (ReceivedSegment& segment : request.message.segments) {
              response.segments.push_back({segment.bytes, std::move(segment.owner)});
            }
            co_return response;
          }};
}

inline std::vector<Bytes> Segments(const IncomingMessage& message) {
  std::vector<Bytes> segments;
  for (const ReceivedSegment& segment : message.segments) {
    segments.emplace_back(segment.bytes.begin(), segment.bytes.end());
  }
  return segments;
}

inline Bytes Text(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace simurgh::rpc
