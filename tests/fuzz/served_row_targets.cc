// The messages between servers of predictions and servers of rows.

#include <algorithm>

#include "base/check.h"
#include "services/api/served_rows.h"
#include "tests/fuzz/schema.h"
#include "tests/fuzz/targets.h"

namespace simurgh::fuzz {
namespace {

constexpr uint64_t kMaxIds = 10'000'000;

void RunUseVersions(Input input) {
  const Received<api::wire::UseVersionsRequest> request(input);
  if (request.table == nullptr) return;
  const auto versions = api::DecodeUse(*request.table);
  if (IsRefusal(versions.status())) return;
  const uint64_t user = request.table->user();
  const Received<api::wire::UseVersionsRequest> again(api::EncodeUse(user, *versions));
  SIMURGH_CHECK_EQ(again.table->user(), user);
  SIMURGH_CHECK(api::DecodeUse(*again.table).value() == *versions);
}

void RunServerVersions(Input input) {
  const Received<api::wire::UseVersionsResponse> response(input);
  if (response.table == nullptr) return;
  const api::ServerVersions versions = api::Decode(*response.table);
  const Received<api::wire::UseVersionsResponse> again(api::Encode(versions));
  const api::ServerVersions copy = api::Decode(*again.table);
  SIMURGH_CHECK(copy.server == versions.server && copy.servers == versions.servers);
  SIMURGH_CHECK(copy.versions == versions.versions && copy.problem == versions.problem);
}

// Begins with the number of ids in the segment.
void RunReadServedRows(Input input) {
  SeedReader reader(input);
  const auto ids = reader.Value<uint64_t>();
  const Received<api::wire::ReadServedRowsRequest> request(reader.rest());
  if (request.table == nullptr) return;
  const auto read = api::DecodeRead(*request.table, ids);
  if (IsRefusal(read.status())) return;
  // What a server relies on.
  SIMURGH_CHECK_LE(ids, kMaxIds);
  uint64_t described = 0;
  const std::vector<RowRead::Group>& groups = read->groups;
  for (size_t i = 0; i < groups.size(); ++i) {
    SIMURGH_CHECK(i == 0 || groups[i].table > groups[i - 1].table);
    described += groups[i].ids;
  }
  SIMURGH_CHECK_EQ(described, ids);
}

std::vector<Bytes> UseVersionsSeeds() {
  return {MetadataOf(api::EncodeUse(5, {})),
          MetadataOf(api::EncodeUse(5, std::vector<VersionName>{{7, 8, 9}, {10, 11, 9}}))};
}

std::vector<Bytes> ServerVersionsSeeds() {
  return {MetadataOf(api::Encode(api::ServerVersions{.problem = "loading: rows=5 of=9"})),
          MetadataOf(api::Encode(api::ServerVersions{
              .server = 1, .servers = 2, .versions = {{10, 20, 30}, {11, 21, 30}}}))};
}

std::vector<Bytes> ReadServedRowsSeeds() {
  std::vector<Bytes> seeds;
  for (const RowRead& read : {RowRead{}, RowRead{.groups = {{0, 2}, {5, 1}}, .ids = {4, 5, 6}}}) {
    const Bytes metadata = MetadataOf(api::Encode(77, read));
    seeds.push_back(SeedWriter().Value(uint64_t{read.ids.size()}).Rest(metadata).bytes());
  }
  return seeds;
}

}  // namespace

std::vector<Target> ServedRowTargets() {
  return {{"use_versions", RunUseVersions, UseVersionsSeeds},
          {"server_versions", RunServerVersions, ServerVersionsSeeds},
          {"read_served_rows", RunReadServedRows, ReadServedRowsSeeds}};
}

}  // namespace simurgh::fuzz
