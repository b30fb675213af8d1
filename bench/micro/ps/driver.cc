#include "bench/micro/ps/driver.h"

#include <algorithm>
#include <chrono>

#include <boost/asio/use_future.hpp>

#include "services/api/row_rpc.h"

namespace simurgh::bench {
namespace {

constexpr auto kCallTimeout = std::chrono::seconds(60);
constexpr float kRate = 0.01F;

}  // namespace

struct Driver::Run {
  const std::vector<PsBatch>& batches;
  bool push;
  rpc::Clock::time_point end;
  uint64_t rows = 0;
  size_t next = 0;
};

Driver::Driver(const std::string& address, const rpc::Hello& hello, uint64_t map_version)
    : map_version_(map_version) {
  io_.RunAndWait([&] {
    client_ = std::make_unique<rpc::Client>(io_.executor(), address, hello, rpc::ClientOptions(),
                                            nullptr);
  });
}

Driver::~Driver() {
  io_.RunAndWait([this] { client_.reset(); });
}

rpc::awaitable<Status> Driver::Pull(const PsBatch& batch) {
  const PullRowsCall call{.step_id = {.run = 1, .rank = 0, .step = step_},
                          .groups = {&batch.group, 1},
                          .ids = batch.ids};
  rpc::Destinations<api::PullRows::Response> anywhere{
      rpc::SegmentDestination<std::byte>::kAllocate};
  const auto response =
      co_await rpc::Call(*client_, api::kPullRows, api::Encode(call, map_version_),
                         std::move(anywhere), rpc::Clock::now() + kCallTimeout);
  co_return response.status();
}

rpc::awaitable<Status> Driver::Push(const PsBatch& batch,
                                    const rpc::SegmentDestination<float>& gradients) {
  const PushRowsCall call{.step_id = {.run = 1, .rank = 0, .step = step_++},
                          .groups = {&batch.group, 1},
                          .learning_rates = {&kRate, 1},
                          .ids = batch.ids,
                          .gradients = std::as_bytes(gradients.values),
                          .owner = gradients.owner};
  const auto response = co_await rpc::Call(
      *client_, api::kPushRows, api::Encode(call, map_version_), rpc::Clock::now() + kCallTimeout);
  co_return response.status();
}

rpc::awaitable<Status> Driver::Repeat(Run& run) {
  rpc::SegmentDestination<float> gradients;
  if (run.push) {
    const uint32_t dim = run.batches[0].group.dim;
    rpc::SegmentBuffer buffer = client_->Allocate(kBatchIds * dim * sizeof(float));
    gradients = {.values = {reinterpret_cast<float*>(buffer.bytes.data()), kBatchIds * dim},
                 .owner = std::move(buffer.owner)};
    std::ranges::fill(gradients.values, 1e-3F);
  }
  do {
    const PsBatch& batch = run.batches[run.next++ % run.batches.size()];
    Status status;
    if (run.push) {
      status = co_await Push(batch, gradients);
    } else {
      status = co_await Pull(batch);
    }
    SIMURGH_CO_RETURN_IF_ERROR(status);
    run.rows += batch.ids.size();
  } while (rpc::Clock::now() < run.end);
  co_return absl::OkStatus();
}

rpc::awaitable<Status> Driver::RunAll(Run& run, size_t in_flight) {
  std::vector<rpc::awaitable<Status>> slots;
  slots.reserve(in_flight);
  for (size_t i = 0; i < in_flight; ++i) slots.push_back(Repeat(run));
  co_return co_await rpc::WhenAll(std::move(slots));
}

Status Driver::Fill(const std::vector<PsBatch>& rows) {
  for (const PsBatch& batch : rows) {
    SIMURGH_RETURN_IF_ERROR(
        rpc::asio::co_spawn(io_.executor(), Pull(batch), rpc::asio::use_future).get());
  }
  return absl::OkStatus();
}

StatusOr<double> Driver::Measure(const std::vector<PsBatch>& batches, bool push, size_t in_flight,
                                 double seconds) {
  const auto start = rpc::Clock::now();
  const auto duration = std::chrono::duration<double>(seconds);
  Run run{.batches = batches,
          .push = push,
          .end = start + std::chrono::duration_cast<rpc::Clock::duration>(duration)};
  SIMURGH_RETURN_IF_ERROR(
      rpc::asio::co_spawn(io_.executor(), RunAll(run, in_flight), rpc::asio::use_future).get());
  const std::chrono::duration<double> elapsed = rpc::Clock::now() - start;
  return static_cast<double>(run.rows) / elapsed.count();
}

}  // namespace simurgh::bench
