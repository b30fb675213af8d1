// Our own library through its public interface, on event loops as the daemons run them.

#include <memory>
#include <semaphore>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "bench/micro/rpc/peer.h"

#include "rpc/client.h"
#include "rpc/server.h"
#include "services/runtime/io_thread.h"
#include "simurgh/base/aligned_buffer.h"

namespace simurgh::bench {
namespace {

using rpc::asio::awaitable;

constexpr uint32_t kEcho = 1;
constexpr auto kCallTimeout = std::chrono::seconds(60);
constexpr std::chrono::microseconds kMaxSpin{50};
constexpr size_t kPoolBytes = size_t{1} << 30;

rpc::Hello HelloOf(std::string role) { return {.cluster = "bench", .role = std::move(role)}; }

// Every segment of a request into a buffer that has been used before.
rpc::Placement FromPool(std::shared_ptr<BufferPool> pool) {
  return [pool = std::move(pool)](std::span<const std::byte> /*metadata*/,
                                  std::span<const uint64_t> lengths) {
    std::vector<rpc::IncomingSegment> places;
    places.reserve(lengths.size());
    for (const uint64_t length : lengths) {
      std::shared_ptr<AlignedBuffer> lease = pool->Lease(length);
      const std::span<std::byte> bytes = lease->bytes().first(length);
      places.push_back({.bytes = bytes, .owner = std::move(lease)});
    }
    return StatusOr<std::vector<rpc::IncomingSegment>>(std::move(places));
  };
}

[[nodiscard]] awaitable<StatusOr<rpc::OutgoingMessage>> Echo(rpc::Request request) {
  rpc::OutgoingMessage response;
  response.segments.reserve(request.message.segments.size());
  for (rpc::IncomingSegment& segment : request.message.segments) {
    response.segments.push_back({.bytes = segment.bytes, .owner = std::move(segment.owner)});
  }
  co_return response;
}

Status Serve(const Point& point, const std::string& address,
             const std::function<void(const std::string&)>& listening) {
  // A path begins with a slash: "unix:///path".
  const std::string uri = absl::StrCat(point.transport, "://", address);
  Status status;
  std::unique_ptr<rpc::Server> server;
  IoThread io("bench-server", kMaxSpin);
  io.RunAndWait([&] {
    server = std::make_unique<rpc::Server>(io.executor(), HelloOf("server"), rpc::ServerOptions(),
                                           nullptr);
    server->Register({.number = kEcho,
                      .name = "echo",
                      .placement = FromPool(std::make_shared<BufferPool>(kPoolBytes)),
                      .handle = Echo});
    status = server->Listen(uri);
  });
  SIMURGH_RETURN_IF_ERROR(status);
  listening(server->address());
  while (true) ::pause();
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

class Driver {
 public:
  Driver(rpc::Client& client, Workload& workload) : client_(client), workload_(workload) {}

  // Starts all slots; `done` is released when the last has ended.
  [[nodiscard]] awaitable<void> Run() {
    // An empty call: the client connects on first use.
    rpc::OutgoingMessage hello;
    auto connected = co_await client_.Call(kEcho, std::move(hello), rpc::NoSegments(),
                                           rpc::Clock::now() + kCallTimeout);
    if (!connected.ok()) {
      co_return End(connected.status());
    }
    workload_.Begin();
    running_ = workload_.in_flight();
    const auto executor = co_await rpc::asio::this_coro::executor;
    for (uint32_t slot = 0; slot < workload_.in_flight(); ++slot) {
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
    rpc::OutgoingMessage request;
    request.segments.push_back({.bytes = workload_.request(slot)});
    auto response = co_await client_.Call(kEcho, std::move(request), Into(workload_.response(slot)),
                                          rpc::Clock::now() + kCallTimeout);
    if (!response.ok()) co_return response.status();
    co_return workload_.Finish(slot, workload_.response(slot));
  }

  void End(const Status& status) {
    status_.Update(status);
    done_.release();
  }

  rpc::Client& client_;
  Workload& workload_;
  uint32_t running_ = 0;
  Status status_;
  std::binary_semaphore done_{0};
};

Status Drive(const Point& /*point*/, const std::string& address, Workload& workload) {
  std::unique_ptr<rpc::Client> client;
  std::unique_ptr<Driver> driver;
  IoThread io("bench-client", kMaxSpin);
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

Peer SimurghPeer() { return {.name = "simurgh", .serve = Serve, .drive = Drive}; }

}  // namespace simurgh::bench
