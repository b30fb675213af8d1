#pragma once

#include <cstdint>
#include <vector>

#include "services/api/methods.h"
#include "services/api/row_payload.h"
#include "services/api/row_server.h"
#include "simurgh/base/status.h"

namespace simurgh::api {

// A decoded request without its payload.
struct PullRowsMessage {
  LookupMode purpose = LookupMode::kTrain;
  StepId position;
  uint64_t acknowledged_steps = 0;
  uint64_t map_version = 0;
  std::vector<RowGroup> groups;
};

struct PushRowsMessage {
  StepId position;
  uint64_t map_version = 0;
  std::vector<RowGroup> groups;
  std::vector<float> learning_rates;
};

// Requests; segments refer to the call's arrays.
rpc::Outgoing<PullRows::Request> Encode(const PullRowsCall& call, uint64_t map_version);
rpc::Outgoing<PushRows::Request> Encode(const PushRowsCall& call, uint64_t map_version);

// Errors: INVALID_ARGUMENT for an unknown mode or precision, a dim outside 1 to 1,024, tables that
// do not ascend, counts for another number of partitions, or more than kMaxBatchOccurrences ids.
StatusOr<PullRowsMessage> Decode(const wire::PullRowsRequest& request, uint32_t partitions);
StatusOr<PushRowsMessage> Decode(const wire::PushRowsRequest& request, uint32_t partitions);

// Responses.
rpc::Outgoing<PullRows::Response> Encode(const PullReport& report,
                                         rpc::SegmentSource<std::byte> rows);
rpc::Outgoing<PushRows::Response> Encode(const PushReport& report);
PullReport Decode(const wire::PullRowsResponse& response);
PushReport Decode(const wire::PushRowsResponse& response);

}  // namespace simurgh::api
