#include "services/nn_worker/rank_methods.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "rpc/waiter.h"
#include "services/api/answer.h"
#include "services/api/patience.h"
#include "services/api/rank_methods.h"
#include "simurgh/base/log.h"
#include "simurgh/config/service_config.h"

namespace simurgh {
namespace {

// Maximum size of the addresses that one rank sends.
constexpr uint64_t kMaxAddressBytes = uint64_t{kMaxRanks} * 1'024;
// Maximum wait of one call for the other ranks; it is then retried.
constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kPause{200};

bool IsRetryable(const Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status);
}

Reply<api::MeetRanks> Meet(rpc::RequestOf<api::MeetRanks::Request> request, Rendezvous& rendezvous,
                           uint64_t run, std::shared_ptr<rpc::WaitList> waiters) {
  const auto& table = request.table();
  const std::span<const std::byte> bytes = request.segment<"addresses">();
  Status arrived = rendezvous.Arrive(
      table.rank(), table.ranks(), table.plan() == nullptr ? "" : table.plan()->str(),
      std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  if (!arrived.ok()) {
    spdlog::warn("refused rank {}: {}", table.rank(), std::string(arrived.message()));
    co_return arrived;
  }
  auto addresses = rendezvous.Addresses();
  while (!addresses) {
    const bool woken = co_await waiters->Wait(api::AnswerBefore(request.deadline()));
    addresses = rendezvous.Addresses();
    if (!woken && !addresses) {
      co_return absl::ResourceExhaustedError(
          absl::StrCat("rank 0 is waiting for ", rendezvous.Missing()));
    }
  }
  const auto all = std::make_shared<std::string>();
  for (const std::string& one : *addresses) *all += one;
  flatbuffers::FlatBufferBuilder builder;
  const auto root = api::wire::CreateMeetRanksResponse(builder, run);
  co_return rpc::Outgoing<api::MeetRanks::Response>(builder, root,
                                                    {std::as_bytes(std::span(*all)), all});
}

}  // namespace

void RegisterRankMethods(rpc::Server& server, Rendezvous& rendezvous, uint64_t run,
                         rpc::asio::any_io_executor executor) {
  const auto waiters = std::make_shared<rpc::WaitList>(executor);
  rendezvous.SetOnComplete(
      [waiters, executor] { rpc::asio::post(executor, [waiters] { waiters->NotifyAll(); }); });
  using Destinations = rpc::Destinations<api::MeetRanks::Request>;
  const auto place = [](const api::wire::MeetRanksRequest& /*request*/,
                        const api::MeetRanks::Request::Counts& counts) -> StatusOr<Destinations> {
    if (counts[0] > kMaxAddressBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "meet ranks: ", counts[0], " bytes of addresses exceed the limit of ", kMaxAddressBytes));
    }
    auto bytes = std::make_shared<std::string>(counts[0], '\0');
    return Destinations{{std::as_writable_bytes(std::span(*bytes)), bytes}};
  };
  rpc::Register(server, api::kMeetRanks, place, [&rendezvous, run, waiters](auto request) {
    return Meet(std::move(request), rendezvous, run, waiters);
  });
}

rpc::awaitable<StatusOr<RendezvousResult>> MeetRanks(rpc::Client& client, uint32_t rank,
                                                     uint32_t ranks, std::string plan,
                                                     std::string addresses,
                                                     rpc::Clock::time_point deadline) {
  const auto own = std::make_shared<const std::string>(std::move(addresses));
  while (true) {
    flatbuffers::FlatBufferBuilder builder;
    const auto root =
        api::wire::CreateMeetRanksRequest(builder, rank, ranks, builder.CreateString(plan));
    rpc::Outgoing<api::MeetRanks::Request> request(builder, root,
                                                   {std::as_bytes(std::span(*own)), own});
    const auto all = std::make_shared<std::string>(own->size() * ranks, '\0');
    rpc::SegmentDestination<std::byte> place{std::as_writable_bytes(std::span(*all)), all};
    const auto until = std::min(deadline, rpc::Clock::now() + kPatience);
    const auto response = co_await rpc::Call(client, api::kMeetRanks, std::move(request),
                                             {{std::move(place)}}, until);
    if (response.ok()) {
      RendezvousResult result{.run = response->table().run()};
      for (uint32_t r = 0; r < ranks; ++r) {
        result.addresses.push_back(all->substr(r * own->size(), own->size()));
      }
      co_return result;
    }
    const Status& status = response.status();
    if (!IsRetryable(status)) co_return Annotate(status, "rank 0");
    if (rpc::Clock::now() + kPause >= deadline) {
      co_return absl::DeadlineExceededError(absl::StrCat(
          "not all ranks arrived within nn_worker.rank_timeout: rank 0: ", status.message()));
    }
    spdlog::info("waiting for the other ranks: {}", std::string(status.message()));
    rpc::asio::steady_timer timer(co_await rpc::asio::this_coro::executor, kPause);
    (void)co_await timer.async_wait(rpc::kNoThrow);
  }
}

}  // namespace simurgh
