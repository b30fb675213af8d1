#pragma once

// Methods of parameter servers and embedding workers. The tables are in rows.fbs and batches.fbs.
// The number and meaning of a method never change.

#include <cstddef>
#include <cstdint>

#include "rpc/method.h"
#include "services/api/batches_generated.h"
#include "services/api/rows_generated.h"

namespace simurgh::api {

// --- Parameter servers. The format of the segments: row_rpc.h.

using PullRows =
    rpc::MethodOf<rpc::MessageOf<wire::PullRowsRequest, rpc::Segment<"ids", uint64_t>>,
                  rpc::MessageOf<wire::PullRowsResponse, rpc::Segment<"rows", std::byte>>>;
inline constexpr PullRows kPullRows{.number = 0x0101, .name = "pull_rows"};

using PushRows = rpc::MethodOf<rpc::MessageOf<wire::PushRowsRequest, rpc::Segment<"ids", uint64_t>,
                                              rpc::Segment<"gradients", std::byte>>,
                               rpc::MessageOf<wire::PushRowsResponse>>;
inline constexpr PushRows kPushRows{.number = 0x0102, .name = "push_rows"};

// A rank's last request. Servers then admit another run: run_guard.h.
using EndRun = rpc::MethodOf<rpc::MessageOf<wire::EndRunRequest>, rpc::MessageOf<rpc::NoTable>>;
inline constexpr EndRun kEndRun{.number = 0x0106, .name = "end_run"};

using SaveRows =
    rpc::MethodOf<rpc::MessageOf<wire::SaveRowsRequest>, rpc::MessageOf<wire::SaveRowsResponse>>;
inline constexpr SaveRows kSaveRows{.number = 0x0107, .name = "save_rows"};

// Answers as SaveRows.
using RestoreRows =
    rpc::MethodOf<rpc::MessageOf<wire::RestoreRowsRequest>, rpc::MessageOf<wire::SaveRowsResponse>>;
inline constexpr RestoreRows kRestoreRows{.number = 0x0108, .name = "restore_rows"};

// --- Embedding workers.

// The segments of an EncodedBatch: src/data/COMPACT_BATCH.md.
using SubmitBatch =
    rpc::MethodOf<rpc::MessageOf<wire::SubmitBatchRequest, rpc::Segment<"plain_ids", uint64_t>,
                                 rpc::Segment<"codes", std::byte>>,
                  rpc::MessageOf<wire::BatchReference>>;
inline constexpr SubmitBatch kSubmitBatch{.number = 0x0201, .name = "submit_batch"};

// embeddings: a vector per sample in the format of simurgh/data/vector_codec.h and the request's
// precision; or rows in the format of simurgh/data/row_codec.h. argmax: of each max-pooled feature,
// in feature order, as services/embedding_worker/README.md describes; empty for an evaluation.
using PullBatch =
    rpc::MethodOf<rpc::MessageOf<wire::PullBatchRequest>,
                  rpc::MessageOf<wire::PullBatchResponse, rpc::Segment<"embeddings", std::byte>,
                                 rpc::Segment<"argmax", std::byte>>>;
inline constexpr PullBatch kPullBatch{.number = 0x0202, .name = "pull_batch"};

// gradients: vectors as in PullBatch. argmax: those of the pull.
using PushBatch =
    rpc::MethodOf<rpc::MessageOf<wire::PushBatchRequest, rpc::Segment<"gradients", std::byte>,
                                 rpc::Segment<"argmax", std::byte>>,
                  rpc::MessageOf<rpc::NoTable>>;
// The head has a learning rate for each of up to 65,536 tables.
inline constexpr PushBatch kPushBatch{
    .number = 0x0203, .name = "push_batch", .max_head_bytes = 384 << 10};

// Passes EndRun on to all servers.
inline constexpr EndRun kEndBatches{.number = 0x0204, .name = "end_batches"};

// Passes SaveRows on to all servers.
inline constexpr SaveRows kSaveModelRows{.number = 0x0205, .name = "save_model_rows"};

// Passes RestoreRows on to all servers.
inline constexpr RestoreRows kRestoreModelRows{.number = 0x0206, .name = "restore_model_rows"};

}  // namespace simurgh::api
