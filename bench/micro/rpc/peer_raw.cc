// Sockets without a library: messages prefixed with their length and answered in order. A receiver
// reads the length first, because it needs it to choose the destination without a copy. One thread
// on each side. It blocks only when a single direction can progress, so both ends never block in a
// write.

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "bench/micro/rpc/peer.h"
#include "bench/micro/rpc/raw_socket.h"

namespace simurgh::bench {
namespace {

// How many messages one system call may move.
constexpr size_t kMaxGathered = 64;

// A row of messages of one size, in a ring of places, that go one way.
class Lane {
 public:
  enum class Way { kOut, kIn };

  Lane(Way way, size_t gathered, size_t message_bytes)
      : way_(way), gathered_(gathered), lengths_(gathered, message_bytes), size_(message_bytes) {}

  uint64_t done() const { return done_; }

  // Moves bytes of messages done() to end - 1, whose places `place` gives. If `wait`, sleeps until
  // the next piece is through, or until some bytes are where a call may move several messages.
  // False if nothing could be moved now.
  template <typename Place>
  StatusOr<bool> Go(uint64_t end, bool wait, int socket, const Place& place) {
    std::array<iovec, 2 * kMaxGathered> pieces;
    const size_t count = Pieces(end, place, pieces);
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const int now = wait ? 0 : MSG_DONTWAIT;
    const ssize_t moved =
        way_ == Way::kOut
            ? ::sendmsg(socket, &message, now | MSG_NOSIGNAL)
            : ::recvmsg(socket, &message, now | (wait && count == 1 ? MSG_WAITALL : 0));
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
    if (moved < 0) return SystemError("raw socket");
    if (moved == 0) return absl::CancelledError("the other end has closed");
    return Note(static_cast<size_t>(moved));
  }

 private:
  static constexpr size_t kLengthBytes = sizeof(uint64_t);

  // Buffers for the next system call. Without gathering, a call moves one part of a message,
  // because the length must be known first.
  template <typename Place>
  size_t Pieces(uint64_t end, const Place& place, std::span<iovec> pieces) {
    size_t count = 0;
    size_t skip = within_;
    const auto add = [&](void* data, size_t bytes) {
      if (skip < bytes) pieces[count++] = {static_cast<std::byte*>(data) + skip, bytes - skip};
      skip -= std::min(skip, bytes);
    };
    const size_t messages = std::min<uint64_t>(end - done_, gathered_);
    for (size_t i = 0; i < messages; ++i) {
      const std::span<std::byte> bytes = place(done_ + i);
      add(&lengths_[i], kLengthBytes);
      if (way_ == Way::kIn && gathered_ == 1 && count == 1) break;
      add(bytes.data(), bytes.size());
    }
    return count;
  }

  StatusOr<bool> Note(size_t moved) {
    within_ += moved;
    const size_t whole = size_ + kLengthBytes;
    const bool length_came = within_ >= kLengthBytes;
    if (length_came && std::ranges::any_of(lengths_, [&](uint64_t n) { return n != size_; })) {
      return absl::DataLossError("a message of another length");
    }
    done_ += within_ / whole;
    within_ %= whole;
    return true;
  }

  Way way_;
  size_t gathered_;
  std::vector<uint64_t> lengths_;  // In the order of the messages.
  size_t size_;
  uint64_t done_ = 0;
  size_t within_ = 0;  // Bytes of message done_ that have been moved.
};

class Connection {
 public:
  // ahead: how many messages may be received beyond those sent.
  Connection(RawSocket socket, size_t gathered, size_t message_bytes, uint64_t ahead)
      : socket_(std::move(socket)),
        ahead_(ahead),
        sent_(Lane::Way::kOut, gathered, message_bytes),
        received_(Lane::Way::kIn, gathered, message_bytes) {}

  uint64_t sent() const { return sent_.done(); }
  uint64_t received() const { return received_.done(); }

  // Continues to send messages up to number `send_end` and to receive. Waits until one of them
  // progresses. outgoing(message) and incoming(message) return the buffer of a message.
  template <typename Outgoing, typename Incoming>
  Status Step(uint64_t send_end, const Outgoing& outgoing, const Incoming& incoming) {
    const bool sending = sent() < send_end;
    bool moved = false;
    if (sending) {
      const bool alone = received() == sent() + ahead_;
      SIMURGH_ASSIGN_OR_RETURN(moved, sent_.Go(send_end, alone, socket_.handle(), outgoing));
    }
    const uint64_t receive_end = sent() + ahead_;
    if (received() < receive_end) {
      const bool alone = sent() == send_end;
      SIMURGH_ASSIGN_OR_RETURN(const bool more,
                               received_.Go(receive_end, alone, socket_.handle(), incoming));
      moved = moved || more;
    }
    return moved ? absl::OkStatus() : WaitForBoth();
  }

 private:
  // Only when neither may sleep in its own call.
  Status WaitForBoth() const {
    pollfd ready{.fd = socket_.handle(), .events = POLLIN | POLLOUT, .revents = 0};
    if (::poll(&ready, 1, -1) < 0 && errno != EINTR) return SystemError("poll");
    return absl::OkStatus();
  }

  RawSocket socket_;
  uint64_t ahead_;
  Lane sent_;
  Lane received_;
};

Status Serve(const Point& point, const std::string& address, size_t gathered,
             const std::function<void(const std::string&)>& listening) {
  SIMURGH_ASSIGN_OR_RETURN(RawSocket socket,
                           RawSocket::AcceptOne(point.transport, address, listening));
  std::vector<AlignedBuffer> buffers;
  for (uint32_t i = 0; i < point.in_flight; ++i) buffers.emplace_back(point.bytes);
  const auto place = [&](uint64_t message) {
    return buffers[message % point.in_flight].bytes().first(point.bytes);
  };
  Connection connection(std::move(socket), gathered, point.bytes, point.in_flight);
  Status status;
  while (status.ok()) status = connection.Step(connection.received(), place, place);
  return absl::IsCancelled(status) ? absl::OkStatus() : status;
}

Status Drive(const Point& point, const std::string& address, size_t gathered, Workload& workload) {
  SIMURGH_ASSIGN_OR_RETURN(RawSocket socket, RawSocket::Connect(point.transport, address));
  workload.Begin();
  const uint32_t slots = point.in_flight;
  const auto request = [&](uint64_t message) {
    const std::span<const std::byte> bytes = workload.request(message % slots);
    return std::span(const_cast<std::byte*>(bytes.data()), bytes.size());  // As iovec wants it.
  };
  const auto response = [&](uint64_t message) { return workload.response(message % slots); };
  Connection connection(std::move(socket), gathered, point.bytes, 0);
  uint64_t started = 0;
  while (started < slots && workload.Start(started % slots)) ++started;
  uint64_t finished = 0;
  while (finished < started) {
    SIMURGH_RETURN_IF_ERROR(connection.Step(started, request, response));
    for (; finished < connection.received(); ++finished) {
      SIMURGH_RETURN_IF_ERROR(workload.Finish(finished % slots, response(finished)));
      if (workload.Start(finished % slots)) ++started;
    }
  }
  return absl::OkStatus();
}

Peer PeerThatGathers(std::string name, size_t gathered) {
  return {.name = std::move(name),
          .serve =
              [gathered](const Point& point, const std::string& address,
                         const std::function<void(const std::string&)>& listening) {
                return Serve(point, address, gathered, listening);
              },
          .drive = [gathered](
                       const Point& point, const std::string& address,
                       Workload& workload) { return Drive(point, address, gathered, workload); }};
}

}  // namespace

Peer RawPeer() { return PeerThatGathers("raw", 1); }

Peer RawGatheringPeer() { return PeerThatGathers("raw-gather", kMaxGathered); }

}  // namespace simurgh::bench
