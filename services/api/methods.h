#pragma once

// What nn-workers, embedding workers and parameter servers ask of one another. The tables are in
// the .fbs files beside; a method's number, and what it means, never change.

#include <cstddef>
#include <cstdint>

#include "rpc/method.h"
#include "services/api/batches_generated.h"
#include "services/api/rows_generated.h"

namespace simurgh::api {

// --- Of a parameter server. Ids lie group after group, partition after partition; rows and
// gradients as row_payload.h has it.

using PullRows =
    rpc::MethodOf<rpc::MessageOf<wire::PullRowsRequest, rpc::Segment<"ids", uint64_t>>,
                  rpc::MessageOf<wire::PullRowsResponse, rpc::Segment<"rows", std::byte>>>;
inline constexpr PullRows kPullRows{.number = 0x0101, .name = "pull_rows"};

using PushRows = rpc::MethodOf<rpc::MessageOf<wire::PushRowsRequest, rpc::Segment<"ids", uint64_t>,
                                              rpc::Segment<"gradients", std::byte>>,
                               rpc::MessageOf<wire::PushRowsResponse>>;
inline constexpr PushRows kPushRows{.number = 0x0102, .name = "push_rows"};

// --- Of an embedding worker.

// The parts of an EncodedBatch: src/data/COMPACT_BATCH.md.
using SubmitBatch =
    rpc::MethodOf<rpc::MessageOf<wire::SubmitBatchRequest, rpc::Segment<"plain_ids", uint64_t>,
                                 rpc::Segment<"codes", std::byte>>,
                  rpc::MessageOf<wire::BatchReference>>;
inline constexpr SubmitBatch kSubmitBatch{.number = 0x0201, .name = "submit_batch"};

// embeddings: a row for each sample, as simurgh/data/vector_codec.h has it in the precision that
// the request names; or, where it asks for rows, as simurgh/data/row_codec.h has them. argmax: of
// each feature that is pooled by max, in their order, as simurgh/data/argmax_codec.h has them; none
// for an evaluation.
using PullBatch =
    rpc::MethodOf<rpc::MessageOf<wire::PullBatchRequest>,
                  rpc::MessageOf<wire::PullBatchResponse, rpc::Segment<"embeddings", std::byte>,
                                 rpc::Segment<"argmax", std::byte>>>;
inline constexpr PullBatch kPullBatch{.number = 0x0202, .name = "pull_batch"};

// gradients: likewise. argmax: those that came with the embeddings.
using PushBatch =
    rpc::MethodOf<rpc::MessageOf<wire::PushBatchRequest, rpc::Segment<"gradients", std::byte>,
                                 rpc::Segment<"argmax", std::byte>>,
                  rpc::MessageOf<rpc::NoTable>>;
inline constexpr PushBatch kPushBatch{.number = 0x0203, .name = "push_batch"};

}  // namespace simurgh::api
