#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rpc/message.h"
#include "services/api/row_server.h"
#include "simurgh/base/status.h"

namespace simurgh::api {

// A request as a server has decoded it: the description is owned, the payload lies where the
// placement put it.
struct PullRowsMessage {
  PullPurpose purpose = PullPurpose::kTrain;
  TrainerPosition position;
  uint64_t acknowledged_steps = 0;
  uint64_t map_version = 0;
  std::vector<RowGroup> groups;
};

struct PushRowsMessage {
  TrainerPosition position;
  uint32_t part = 0;
  uint32_t parts = 1;
  uint64_t map_version = 0;
  std::vector<RowGroup> groups;
  std::vector<float> learning_rates;
};

// How many ids and floats the groups describe. Dims and counts are bounded by Decode*, so nothing
// overflows.
struct RowPayload {
  uint64_t ids = 0;
  uint64_t floats = 0;
};
RowPayload PayloadOf(std::span<const RowGroup> groups);

// Metadata of requests.
rpc::OutgoingSegment Encode(const PullRowsCall& call, uint64_t map_version);
rpc::OutgoingSegment Encode(const PushRowsCall& call, uint64_t map_version);

// Verifies and reads the metadata of a request.
// Errors: INVALID_ARGUMENT for bytes that are no such message, a group whose dim is not
// in 1..1,024, whose number of counts is not `partitions`, or more than 10^7 ids in all.
StatusOr<PullRowsMessage> DecodePullRows(std::span<const std::byte> metadata, uint32_t partitions);
StatusOr<PushRowsMessage> DecodePushRows(std::span<const std::byte> metadata, uint32_t partitions);

// Metadata of responses.
rpc::OutgoingSegment Encode(const PullReport& report);
rpc::OutgoingSegment Encode(const PushReport& report);
StatusOr<PullReport> DecodePullReport(std::span<const std::byte> metadata);
StatusOr<PushReport> DecodePushReport(std::span<const std::byte> metadata);

}  // namespace simurgh::api
