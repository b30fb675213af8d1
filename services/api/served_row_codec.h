#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "services/api/served_row_methods.h"
#include "simurgh/base/status.h"
#include "simurgh/serve/remote_rows.h"

namespace simurgh::api {

// The answer of a server of rows.
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
// ids: of the request. Errors: INVALID_ARGUMENT for tables that do not ascend, groups without ids,
// another number of ids than the groups have, or more than kMaxBatchOccurrences.
StatusOr<std::vector<RowRead::Group>> DecodeGroups(const wire::ReadServedRowsRequest& request,
                                                   uint64_t ids);

}  // namespace simurgh::api
