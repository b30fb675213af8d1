#pragma once

#include <cstdint>
#include <vector>

#include "services/api/methods.h"
#include "services/api/row_payload.h"
#include "services/api/row_server.h"
#include "simurgh/base/status.h"

namespace simurgh::api {

// Requests; segments refer to the call's arrays.
rpc::Outgoing<PullRows::Request> Encode(const PullRowsCall& call, uint64_t map_version);
rpc::Outgoing<PushRows::Request> Encode(const PushRowsCall& call, uint64_t map_version);

// Errors: INVALID_ARGUMENT for an unknown precision, a dim outside 1 to 1,024, tables that do not
// ascend, counts for another number of partitions, or more than kMaxBatchOccurrences ids.
using GroupVector = flatbuffers::Vector<flatbuffers::Offset<wire::RowGroup>>;
StatusOr<std::vector<RowGroup>> DecodeGroups(const GroupVector& groups, uint32_t partitions);

// Responses.
rpc::Outgoing<PullRows::Response> Encode(const PullReport& report,
                                         rpc::SegmentSource<std::byte> rows);
rpc::Outgoing<PushRows::Response> Encode(const PushReport& report);
PullReport Decode(const wire::PullRowsResponse& response);
PushReport Decode(const wire::PushRowsResponse& response);

rpc::Outgoing<SaveRows::Request> Encode(const SaveRowsCall& call);
SaveRowsCall Decode(const wire::SaveRowsRequest& request);
rpc::Outgoing<RestoreRows::Request> Encode(const RestoreRowsCall& call);
RestoreRowsCall Decode(const wire::RestoreRowsRequest& request);
rpc::Outgoing<SaveRows::Response> Encode(const SaveProgress& progress);
SaveProgress Decode(const wire::SaveRowsResponse& response);

}  // namespace simurgh::api
