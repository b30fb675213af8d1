#include "services/row_server/served_row_methods.h"

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "rpc/async.h"
#include "services/api/reply.h"
#include "services/api/served_rows.h"

namespace simurgh {
namespace {

const CounterFamily kReadIdsTotal("simurgh_serve_read_ids_total", "Ids that clients have read.");
const CounterFamily kReadAbsentIdsTotal("simurgh_serve_read_absent_ids_total",
                                        "Ids that clients have read and that have no row.");

struct Counters {
  explicit Counters(MetricRegistry& registry)
      : ids(registry.Get(kReadIdsTotal)), absent(registry.Get(kReadAbsentIdsTotal)) {}

  Counter& ids;
  Counter& absent;
};

Reply<api::UseVersions> HandleUse(rpc::RequestOf<api::UseVersions::Request> request,
                                  const RowShare& share, const ServedVersions& versions,
                                  VersionUsers& users) {
  SIMURGH_CO_ASSIGN_OR_RETURN(const std::vector<VersionName> used, api::DecodeUse(request.table()));
  // The use is noted first, so that no version in the answer is dropped before the next request.
  users.Note(request.table().user(), used, VersionUsers::Clock::now());
  api::ServerVersions answer{.server = share.server(), .servers = share.servers()};
  for (const auto& version : versions.Loaded()) answer.versions.push_back(version->name());
  answer.problem = versions.Problem();
  co_return api::Encode(answer);
}

Reply<api::ReadServedRows> HandleRead(rpc::RequestOf<api::ReadServedRows::Request> request,
                                      const RowRead& read, const ServedVersions& versions,
                                      rpc::asio::any_io_executor compute, Counters counters) {
  const std::span<const uint64_t> ids = request.segment<"ids">();
  const std::shared_ptr<const ModelVersion> version =
      versions.FindChecksum(request.table().checksum());
  if (version == nullptr) {
    co_return absl::NotFoundError("the version is not loaded any more, or not yet");
  }
  SIMURGH_CO_ASSIGN_OR_RETURN(RowAnswer answer, co_await rpc::RunOn(compute, [&] {
                                return AnswerRead(*version, read.precision, read.groups, ids,
                                                  [&request](size_t bytes) -> RowMemory {
                                                    const rpc::SegmentBuffer buffer =
                                                        request.Allocate(bytes);
                                                    return {buffer.bytes, buffer.owner};
                                                  });
                              }));
  uint64_t present = 0;
  for (size_t i = 0; i < ids.size(); ++i) present += answer.Has(i) ? 1 : 0;
  counters.ids.Add(ids.size());
  counters.absent.Add(ids.size() - present);
  const auto bits = std::make_shared<const std::vector<uint8_t>>(std::move(answer.present));
  co_return rpc::Outgoing<api::ReadServedRows::Response>({*bits, bits},
                                                         {answer.rows, answer.owner});
}

}  // namespace

void RegisterServedRowMethods(rpc::Server& server, const RowShare& share,
                              const ServedVersions& versions, VersionUsers& users,
                              boost::asio::any_io_executor compute, MetricRegistry& metrics) {
  rpc::Register(server, api::kUseVersions, [&share, &versions, &users](auto request) {
    return HandleUse(std::move(request), share, versions, users);
  });
  using ReadPlaced = rpc::PlacedWith<api::ReadServedRows::Request, RowRead>;
  const auto place =
      [](const api::wire::ReadServedRowsRequest& request,
         const api::ReadServedRows::Request::Counts& counts) -> StatusOr<ReadPlaced> {
    SIMURGH_ASSIGN_OR_RETURN(RowRead read, api::DecodeRead(request, counts[0]));
    // The ids are received into own memory, because the client could change shared memory during
    // the search.
    const auto ids = std::make_shared<std::vector<uint64_t>>(counts[0]);
    return ReadPlaced{{{*ids, ids}}, std::move(read)};
  };
  const Counters counters(metrics);
  rpc::Register(server, api::kReadServedRows, place,
                [&versions, compute, counters](auto request, auto& read) {
                  return HandleRead(std::move(request), read, versions, compute, counters);
                });
}

}  // namespace simurgh
