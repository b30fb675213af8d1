#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "services/api/methods.h"
#include "services/api/row_server.h"
#include "services/api/rows_generated.h"
#include "simurgh/base/status.h"
#include "simurgh/feature/batch_plan.h"
#include "simurgh/train/ports.h"

namespace simurgh::api {

// The ids of a request are ordered by group and then by partition. Rows or gradients follow the
// same order, each row with its group's dim and precision. Each group is padded to a multiple of 4
// bytes, so that f32 groups are aligned.

struct RowPayload {
  uint64_t ids = 0;
  uint64_t bytes = 0;  // Size of rows or gradients, with padding.
};

// Requires bounded dims and counts, as DecodeGroups() ensures.
RowPayload PayloadOf(const RowGroup& group);
RowPayload PayloadOf(std::span<const RowGroup> groups);

// Errors: INVALID_ARGUMENT unless `given` equals the number that the groups describe. what: names
// it.
Status CheckLength(const char* what, uint64_t given, uint64_t described);

// Calls visit(partition, group, first id, ids, first byte) for every non-empty part of a group that
// belongs to one partition.
template <typename Visit>
void ForEachRun(std::span<const RowGroup> groups, const Visit& visit) {
  size_t id = 0;
  size_t group_byte = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const size_t row_bytes = size_t{groups[g].dim} * SizeOf(groups[g].precision);
    size_t byte = group_byte;
    for (size_t p = 0; p < groups[g].counts.size(); ++p) {
      const size_t count = groups[g].counts[p];
      if (count > 0) visit(p, g, id, count, byte);
      id += count;
      byte += count * row_bytes;
    }
    group_byte += PayloadOf(groups[g]).bytes;
  }
}

flatbuffers::Offset<wire::StepId> Encode(flatbuffers::FlatBufferBuilder& builder,
                                         const StepId& step_id);
StepId Decode(const wire::StepId& step_id);

rpc::Outgoing<EndRun::Request> EncodeEndRun(const StepId& step_id);

// what: prefix of errors, "pull". Errors: INVALID_ARGUMENT for an unknown mode.
StatusOr<LookupMode> DecodeLookupMode(const char* what, uint8_t mode);

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
