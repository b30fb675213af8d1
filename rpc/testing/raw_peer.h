#pragma once

// A peer that says whatever a test wants, byte by byte.

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
  // Lent segments behind those: their loans and lengths. If there are any, the frame is flagged.
  struct Lent {
    BorrowedSegment loan;
    uint64_t length = 0;
  };
  std::vector<Lent> lent;
};

// The frame as on the wire, with the lengths, count and checksum that belong to it. Segments of a
// chunked one are announced and left out.
std::vector<std::byte> Encode(const RawFrame& frame);

// A CHUNK with payload of several messages.
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

  // Says HELLO and reads the other's.
  [[nodiscard]] awaitable<Status> ShakeHands(Hello hello);

  // Sends bytes and, along with them, files.
  // Errors: UNAVAILABLE.
  Status SendFiles(std::vector<std::byte> bytes, const std::vector<int>& files);

  // Errors: UNAVAILABLE when the other end has closed.
  [[nodiscard]] awaitable<Status> Send(std::vector<std::byte> bytes);
  [[nodiscard]] awaitable<Status> Fill(std::span<std::byte> place);
  // The next frame that is not PADDING.
  [[nodiscard]] awaitable<StatusOr<RawFrame>> Read();
  [[nodiscard]] awaitable<StatusOr<RawFrame>> ReadAny();
  // The rest of a frame whose header has been read.
  [[nodiscard]] awaitable<StatusOr<RawFrame>> ReadAfter(std::span<const std::byte> header);

  // Reads past everything until the other end closes.
  [[nodiscard]] awaitable<void> ReadToEnd();

  void Close() { socket_.close(); }

 private:
  Socket socket_;
};

}  // namespace simurgh::rpc::testing
