#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/status.h"
#include "config/cluster_config.h"
#include "config/serving_config.h"
#include "predict/remote_rows.h"
#include "rpc/method.h"
#include "services/api/served_rows_generated.h"

namespace simurgh::api {

// Describes the processes that exchange a model's rows as a cluster: its parameter servers are
// serving.servers, its name is the same for all models. Both ends use it for HELLO.
inline ClusterConfig ClusterOf(const ServingConfig& config) {
  ClusterConfig cluster;
  cluster.name = "serving";
  cluster.rpc = config.rpc;
  for (size_t i = 0; i < config.servers.size(); ++i) {
    InstanceConfig server;
    server.address = config.servers[i];
    server.address_key = server.listen_key = absl::StrCat(config.servers_key, ".", i);
    cluster.embedding_ps.instances.push_back(std::move(server));
  }
  return cluster;
}

// Methods of `row-server`. The tables are in served_rows.fbs. The number and meaning of a
// method never change.

using UseVersions = rpc::MethodOf<rpc::MessageOf<wire::UseVersionsRequest>,
                                  rpc::MessageOf<wire::UseVersionsResponse>>;
inline constexpr UseVersions kUseVersions{.number = 0x0401, .name = "use_versions"};

// ids: those of all groups, in their order. present, rows: see RowAnswer. Errors: NOT_FOUND when
// the version is not loaded.
using ReadServedRows =
    rpc::MethodOf<rpc::MessageOf<wire::ReadServedRowsRequest, rpc::Segment<"ids", uint64_t>>,
                  rpc::MessageOf<rpc::NoTable, rpc::Segment<"present", uint8_t>,
                                 rpc::Segment<"rows", std::byte>>>;
// The head has a group for each of up to 65,536 tables.
inline constexpr ReadServedRows kReadServedRows{
    .number = 0x0402, .name = "read_served_rows", .max_head_bytes = 640 << 10};

// A row server's answer to UseVersions.
struct ServerVersions {
  uint32_t server = 0;
  uint32_t servers = 1;
  std::vector<VersionName> versions;
  std::string problem;
};

rpc::Outgoing<UseVersions::Request> EncodeUse(uint64_t user, std::span<const VersionName> versions);
// Errors: INVALID_ARGUMENT for more versions than a process uses.
StatusOr<std::vector<VersionName>> DecodeUse(const wire::UseVersionsRequest& request);
rpc::Outgoing<UseVersions::Response> Encode(const ServerVersions& versions);
ServerVersions Decode(const wire::UseVersionsResponse& response);

// The segment refers to `read`.
rpc::Outgoing<ReadServedRows::Request> Encode(uint64_t checksum, const RowRead& read);
// ids: number of ids of the request. Errors: INVALID_ARGUMENT for tables that do not ascend, groups
// without ids, another number of ids than the groups have, or more than kMaxBatchOccurrences, or
// another precision. The result has no ids.
StatusOr<RowRead> DecodeRead(const wire::ReadServedRowsRequest& request, uint64_t ids);

}  // namespace simurgh::api
