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

// Requires the dims of a server's tables and at most kMaxBatchOccurrences ids.
RowPayload PayloadOf(const RowGroup& group);
RowPayload PayloadOf(std::span<const RowGroup> groups);

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

using GroupVector = flatbuffers::Vector<flatbuffers::Offset<wire::RowGroup>>;

// What requests to a server must fit.
struct RowShape {
  std::vector<uint32_t> dims;  // By table.
  uint32_t partitions = 1;
};

// The ids of one table in one partition.
struct RowRun {
  uint32_t partition = 0;
  uint32_t table = 0;
  uint32_t dim = 0;
  RowPrecision precision = RowPrecision::kF32;
  float learning_rate = 0;  // Push only.
  size_t first_id = 0;
  size_t count = 0;  // Above 0.
  size_t first_byte = 0;

  bool operator==(const RowRun&) const = default;
};

// The groups of a request. Only Parse() makes them, and it checks everything.
class ParsedRows {
 public:
  // learning_rates: by group; of a pull: none.
  // Errors: INVALID_ARGUMENT for tables that do not ascend or are unknown, dims and partitions that
  // differ from the server's, an unknown precision, a learning rate that is not finite and at least
  // 0, or more than kMaxBatchOccurrences ids.
  static StatusOr<ParsedRows> Parse(const GroupVector& groups, const RowShape& shape);
  static StatusOr<ParsedRows> Parse(std::span<const RowGroup> groups,
                                    std::span<const float> learning_rates, const RowShape& shape);

  // By group, then by partition.
  const std::vector<RowRun>& runs() const { return runs_; }
  const RowPayload& payload() const { return payload_; }

  // Errors: INVALID_ARGUMENT for lengths that the groups do not describe.
  Status CheckLengths(uint64_t ids, uint64_t bytes) const;

  // A group of either form.
  struct Group {
    uint32_t table;
    uint32_t dim;
    std::span<const uint32_t> counts;
    uint8_t precision;
    float learning_rate;
  };

 private:
  ParsedRows() = default;
  static StatusOr<ParsedRows> Parse(std::span<const Group> groups, const RowShape& shape);

  std::vector<RowRun> runs_;
  RowPayload payload_;
};

// Errors: INVALID_ARGUMENT for an unknown order, or a rank or a number of ranks that is out of
// range.
Status CheckPushOrder(const StepId& step_id);

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
