// Our own library through its public interface, on event loops of the daemons' kind.

#include <memory>
#include <semaphore>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "base/aligned_buffer.h"
#include "bench/micro/rpc/peer.h"
#include "bench/micro/rpc/tensor.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "services/runtime/io_thread.h"

namespace simurgh::bench {
namespace {

using rpc::asio::awaitable;

constexpr rpc::MethodId kEcho{.number = 1, .name = "echo"};
constexpr auto kCallTimeout = std::chrono::seconds(60);
constexpr size_t kPoolBytes = size_t{1} << 30;

rpc::Hello HelloOf(std::string role) { return {.cluster = "bench", .role = std::move(role)}; }

rpc::SegmentBuffer Lease(BufferPool& pool, size_t bytes) {
  std::shared_ptr<AlignedBuffer> lease = pool.Lease(bytes);
  const std::span<std::byte> place = lease->bytes().first(bytes);
  return {.bytes = place, .owner = std::move(lease)};
}

// Every segment into a buffer that has been used before.
rpc::Placement FromPool(std::shared_ptr<BufferPool> pool) {
  return [pool = std::move(pool)](std::span<const std::byte> /*metadata*/,
                                  std::span<const uint64_t> lengths) {
    std::vector<rpc::IncomingSegment> places;
    places.reserve(lengths.size());
    for (const uint64_t length : lengths) {
      rpc::SegmentBuffer buffer = Lease(*pool, length);
      places.push_back({.bytes = buffer.bytes, .owner = std::move(buffer.owner)});
    }
    return StatusOr<std::vector<rpc::IncomingSegment>>(std::move(places));
  };
}

// The one place of a slot's response.
rpc::Placement Into(std::span<std::byte> place) {
  return [place](std::span<const std::byte> /*metadata*/,
                 std::span<const uint64_t> lengths) -> StatusOr<std::vector<rpc::IncomingSegment>> {
    if (lengths.size() != 1 || lengths[0] != place.size()) {
      return absl::DataLossError("the response is of another size");
    }
    std::vector<rpc::IncomingSegment> places;
    places.push_back({.bytes = place});
    return places;
  };
}

// Only segments with an owner are sent without a copy. The workload's bytes outlive the connection
// and change only after the response is received, so the owner frees nothing.
rpc::OutgoingSegment OfWorkload(std::span<const std::byte> bytes) {
  return {.bytes = bytes, .owner = {std::shared_ptr<const void>(), bytes.data()}};
}

// In shared memory, payload is produced in the transport's memory and read in the sender's. Over
// sockets each end uses its own buffers.
bool IsShared(const Point& point) { return point.transport == "shm"; }

// Tensors to send, produced when they are wanted or, each number once, kept.
class Producer {
 public:
  explicit Producer(Work work) : keeps_(work == Work::kReady) {}

  // allocate(): a buffer for the tensor, if it must be produced.
  template <typename Allocate>
  rpc::OutgoingSegment Get(uint64_t number, const Allocate& allocate) {
    if (const auto kept = kept_.find(number); kept != kept_.end()) return kept->second.segment();
    rpc::SegmentBuffer buffer = allocate();
    Produce(buffer.bytes, number);
    if (keeps_) kept_.emplace(number, buffer);
    return buffer.segment();
  }

 private:
  bool keeps_;
  std::unordered_map<uint64_t, rpc::SegmentBuffer> kept_;
};

// What the server answers.
class Responder {
 public:
  explicit Responder(const Point& point) : point_(point), producer_(point.work) {}

  rpc::Method method() {
    return {.id = kEcho,
            .placement = IsShared(point_) ? rpc::AllocateAll(1) : FromPool(pool_),
            .handle = Handler()};
  }

 private:
  std::function<awaitable<StatusOr<rpc::OutgoingMessage>>(rpc::Request)> Handler() {
    return [this](rpc::Request request) { return Answer(std::move(request)); };
  }

  [[nodiscard]] awaitable<StatusOr<rpc::OutgoingMessage>> Answer(rpc::Request request) {
    rpc::OutgoingMessage response;
    if (request.message.segments.empty()) co_return response;  // The first call, to connect.
    rpc::ReceivedSegment& received = request.message.segments[0];
    if (point_.work == Work::kEcho) {
      response.segments.push_back({.bytes = received.bytes, .owner = std::move(received.owner)});
      co_return response;
    }
    const std::optional<uint64_t> number = Consume(received.bytes);
    if (!number) co_return absl::DataLossError("the request is not as it was produced");
    response.segments.push_back(producer_.Get(*number, [&] {
      return IsShared(point_) ? request.Allocate(point_.bytes) : Lease(*pool_, point_.bytes);
    }));
    co_return response;
  }

  Point point_;
  Producer producer_;
  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>(kPoolBytes);
};

Status Serve(const Point& point, const std::string& address,
             const std::function<void(const std::string&)>& listening) {
  // A path begins with a slash: "unix:///path".
  const std::string uri = absl::StrCat(point.transport, "://", address);
  Status status;
  Responder responder(point);
  std::unique_ptr<rpc::Server> server;
  IoThread io("bench-server", std::chrono::microseconds(point.spin_us));
  io.RunAndWait([&] {
    server = std::make_unique<rpc::Server>(io.executor(), HelloOf("server"), rpc::ServerOptions(),
                                           nullptr);
    server->Register(responder.method());
    status = server->Listen(uri);
  });
  SIMURGH_RETURN_IF_ERROR(status);
  listening(server->address());
  while (true) ::pause();
}

class Driver {
 public:
  Driver(rpc::Client& client, Workload& workload)
      : client_(client), workload_(workload), producer_(workload.point().work) {}

  // Connects and starts all slots; Wait() returns when the last has ended.
  [[nodiscard]] awaitable<void> Run() {
    // An empty call: the client connects on first use.
    rpc::OutgoingMessage hello;
    auto connected = co_await client_.Call(kEcho, std::move(hello), rpc::NoSegments(),
                                           rpc::Clock::now() + kCallTimeout);
    if (!connected.ok()) {
      co_return End(connected.status());
    }
    workload_.Begin();
    running_ = workload_.point().in_flight;
    const auto executor = co_await rpc::asio::this_coro::executor;
    for (uint32_t slot = 0; slot < workload_.point().in_flight; ++slot) {
      rpc::asio::co_spawn(executor, RunSlot(slot), rpc::asio::detached);
    }
  }

  Status Wait() {
    done_.acquire();
    return status_;
  }

 private:
  [[nodiscard]] awaitable<void> RunSlot(uint32_t slot) {
    Status status;
    while (status.ok() && workload_.Start(slot)) status = co_await CallOnce(slot);
    status_.Update(status);
    if (--running_ == 0) End(absl::OkStatus());
  }

  [[nodiscard]] awaitable<Status> CallOnce(uint32_t slot) {
    const Point& point = workload_.point();
    rpc::OutgoingMessage request;
    if (point.work == Work::kEcho) {
      request.segments.push_back(OfWorkload(workload_.request(slot)));
    } else {
      request.segments.push_back(producer_.Get(workload_.number(slot), [&] {
        return IsShared(point) ? client_.Allocate(point.bytes) : Lease(*pool_, point.bytes);
      }));
    }
    auto response = co_await client_.Call(kEcho, std::move(request), PlacementOf(slot),
                                          rpc::Clock::now() + kCallTimeout);
    if (!response.ok()) co_return response.status();
    if (response->segments.size() != 1) co_return absl::DataLossError("no payload");
    co_return workload_.Finish(slot, response->segments[0].bytes);
  }

  rpc::Placement PlacementOf(uint32_t slot) {
    const Point& point = workload_.point();
    if (IsShared(point)) return rpc::AllocateAll(1);
    return point.work == Work::kEcho ? Into(workload_.response(slot)) : FromPool(pool_);
  }

  void End(const Status& status) {
    status_.Update(status);
    done_.release();
  }

  rpc::Client& client_;
  Workload& workload_;
  Producer producer_;
  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>(kPoolBytes);
  uint32_t running_ = 0;
  Status status_;
  std::binary_semaphore done_{0};
};

Status Drive(const Point& point, const std::string& address, Workload& workload) {
  std::unique_ptr<rpc::Client> client;
  std::unique_ptr<Driver> driver;
  IoThread io("bench-client", std::chrono::microseconds(point.spin_us));
  io.RunAndWait([&] {
    client = std::make_unique<rpc::Client>(io.executor(), address, HelloOf("client"),
                                           rpc::ClientOptions(), nullptr);
    driver = std::make_unique<Driver>(*client, workload);
    rpc::asio::co_spawn(io.executor(), driver->Run(), rpc::asio::detached);
  });
  const Status status = driver->Wait();
  io.RunAndWait([&] { client->Stop(); });
  io.Stop();
  return status;
}

}  // namespace

Peer SimurghPeer(std::string name) {
  return {.name = std::move(name), .serve = Serve, .drive = Drive};
}

}  // namespace simurgh::bench
