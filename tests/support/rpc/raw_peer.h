#pragma once

// A peer whose bytes the test controls.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "rpc/async.h"
#include "rpc/frame.h"
#include "rpc/message.h"
#include "rpc/transport.h"

namespace simurgh::rpc::testing {

struct RawFrame {
  FrameHeader header;
  std::vector<std::byte> metadata;
  std::vector<std::vector<std::byte>> segments;
  // Borrowed segments after the others. If there are any, Encode() sets the flag.
  struct Borrowed {
    BorrowedSegment segment;
    uint64_t length = 0;
  };
  std::vector<Borrowed> borrowed;
};

// The bytes of the frame. Sets lengths, count and checksum; leaves out the segments of a chunked
// frame.
std::vector<std::byte> Encode(const RawFrame& frame);

// A gathered CHUNK.
struct RawPiece {
  uint64_t id = 0;
  std::vector<std::byte> bytes;
};
RawFrame GatheredChunk(const std::vector<RawPiece>& pieces);

// The HELLO of an end that accepts frames of up to 1 GiB.
RawFrame HelloFrame(const Hello& hello, uint64_t features = 0);

class RawPeer {
 public:
  explicit RawPeer(Socket socket) : socket_(std::move(socket)) {}

  [[nodiscard]] static awaitable<StatusOr<RawPeer>> Dial(std::string address);

  // Exchanges HELLOs.
  [[nodiscard]] awaitable<Status> ShakeHands(Hello hello);

  // Sends bytes with files.
  // Errors: UNAVAILABLE.
  Status SendFiles(std::vector<std::byte> bytes, const std::vector<int>& files);

  // Errors: UNAVAILABLE when the connection has ended.
  [[nodiscard]] awaitable<Status> Send(std::vector<std::byte> bytes);
  // Sends what the socket accepts without waiting. Returns the number of bytes.
  size_t TrySend(std::span<const std::byte> bytes);
  [[nodiscard]] awaitable<Status> Fill(std::span<std::byte> destination);
  // The next frame that is not PADDING.
  [[nodiscard]] awaitable<StatusOr<RawFrame>> Read();
  [[nodiscard]] awaitable<StatusOr<RawFrame>> ReadAny();
  // The rest of a frame whose header has been read.
  [[nodiscard]] awaitable<StatusOr<RawFrame>> ReadAfter(std::span<const std::byte> header);

  // Reads and drops everything until the connection ends.
  [[nodiscard]] awaitable<void> ReadToEnd();

  void Close() { socket_.close(); }

 private:
  Socket socket_;
};

}  // namespace simurgh::rpc::testing
