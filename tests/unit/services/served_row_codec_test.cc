#include <vector>

#include <catch2/catch.hpp>

#include "services/api/served_rows.h"

namespace simurgh::api {
namespace {

// The decoded metadata of a message.
template <typename Table, typename Message>
const Table& TableOf(const rpc::Outgoing<Message>& message) {
  const auto table = rpc::VerifiedTable<Table>("test", message.message().metadata.bytes);
  REQUIRE(table.ok());
  return **table;
}

TEST_CASE("Messages of servers of rows round-trip") {
  const std::vector<VersionName> names = {{7, UINT64_MAX, 8}, {9, 10, 8}};
  const auto use = EncodeUse(99, names);
  const auto& used = TableOf<wire::UseVersionsRequest>(use);
  CHECK(used.user() == 99);
  CHECK(DecodeUse(used).value() == names);

  const ServerVersions versions{
      .server = 2, .servers = 3, .versions = {{10, 20, 30}, {11, 21, 30}}, .problem = "loading"};
  const auto response = Encode(versions);
  const ServerVersions decoded = Decode(TableOf<wire::UseVersionsResponse>(response));
  CHECK(decoded.server == 2);
  CHECK(decoded.servers == 3);
  CHECK(decoded.versions == versions.versions);
  CHECK(decoded.problem == "loading");

  const RowRead read{
      .precision = VectorPrecision::kInt8, .groups = {{0, 2}, {5, 1}}, .ids = {4, 5, 6}};
  const auto request = Encode(77, read);
  const auto& table = TableOf<wire::ReadServedRowsRequest>(request);
  CHECK(table.checksum() == 77);
  const RowRead again = DecodeRead(table, read.ids.size()).value();
  CHECK(again.precision == VectorPrecision::kInt8);
  const std::vector<RowRead::Group>& groups = again.groups;
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].table == 0);
  CHECK(groups[0].ids == 2);
  CHECK(groups[1].table == 5);
  CHECK(groups[1].ids == 1);
  CHECK(request.message().segments.size() == 1);
  CHECK(request.message().segments[0].bytes.size() == 3 * sizeof(uint64_t));
}

TEST_CASE("Requests to servers of rows are checked") {
  const auto refusal = [](const std::vector<RowRead::Group>& groups, uint64_t ids) {
    const auto request = Encode(1, RowRead{.groups = groups});
    const auto decoded = DecodeRead(TableOf<wire::ReadServedRowsRequest>(request), ids);
    CHECK(decoded.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(decoded.status().message());
  };
  CHECK(refusal({{3, 1}, {3, 1}}, 2) ==
        "served rows: table 3 follows table 3; list each table once, in ascending order");
  CHECK(refusal({{3, 1}, {2, 1}}, 2) ==
        "served rows: table 2 follows table 3; list each table once, in ascending order");
  CHECK(refusal({{0, 1}, {1, 0}}, 1) == "served rows: no ids of table 1; leave the table out");
  CHECK(refusal({{0, 2}}, 3) ==
        "served rows: the request has 3 ids, its groups describe 2; at most 10000000 are allowed");
  CHECK_THAT(refusal({{0, UINT32_MAX}, {1, UINT32_MAX}}, 2 * uint64_t{UINT32_MAX}),
             Catch::Contains("at most 10000000 are allowed"));
  // No ids at all: a server answers with nothing.
  const auto empty = Encode(1, RowRead());
  CHECK(DecodeRead(TableOf<wire::ReadServedRowsRequest>(empty), 0).value().groups.empty());
  const auto other = Encode(1, RowRead{.precision = static_cast<VectorPrecision>(9)});
  CHECK_THAT(
      std::string(DecodeRead(TableOf<wire::ReadServedRowsRequest>(other), 0).status().message()),
      Catch::StartsWith("served rows: precision 9 is unknown; "));
  const std::vector<VersionName> many(17);
  const auto use = EncodeUse(1, many);
  CHECK(DecodeUse(TableOf<wire::UseVersionsRequest>(use)).status().message() ==
        "use versions: 17 versions; use at most 16");
}

}  // namespace
}  // namespace simurgh::api
