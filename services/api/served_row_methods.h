#pragma once

// Methods of `embedding-ps --serve`. The tables are in served_rows.fbs. The number and meaning of a
// method never change.

#include <cstddef>
#include <cstdint>

#include "rpc/method.h"
#include "services/api/served_rows_generated.h"

namespace simurgh::api {

using UseVersions = rpc::MethodOf<rpc::MessageOf<wire::UseVersionsRequest>,
                                  rpc::MessageOf<wire::UseVersionsResponse>>;
inline constexpr UseVersions kUseVersions{.number = 0x0401, .name = "use_versions"};

// ids: of all groups, in their order. present, rows: see RowAnswer. NOT_FOUND: the version is not
// loaded.
using ReadServedRows =
    rpc::MethodOf<rpc::MessageOf<wire::ReadServedRowsRequest, rpc::Segment<"ids", uint64_t>>,
                  rpc::MessageOf<rpc::NoTable, rpc::Segment<"present", uint8_t>,
                                 rpc::Segment<"rows", std::byte>>>;
// The head has a group for each of up to 65,536 tables.
inline constexpr ReadServedRows kReadServedRows{
    .number = 0x0402, .name = "read_served_rows", .max_head_bytes = 640 << 10};

}  // namespace simurgh::api
