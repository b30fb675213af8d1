#pragma once

// Methods of parameter servers, embedding workers and nn-workers. The tables are in rows.fbs,
// batches.fbs, ranks.fbs and checkpoint.fbs. The number and meaning of a method never change;
// 0x0304 was an earlier meet_ranks.

#include <cstddef>
#include <cstdint>

#include "rpc/method.h"
#include "services/api/batches_generated.h"
#include "services/api/checkpoint_generated.h"
#include "services/api/ranks_generated.h"
#include "services/api/rows_generated.h"

namespace simurgh::api {

// --- Parameter servers. The format of the segments: row_rpc.h.

using PullRows =
    rpc::MethodOf<rpc::MessageOf<wire::PullRowsRequest, rpc::Segment<"ids", uint64_t>>,
                  rpc::MessageOf<wire::PullRowsResponse, rpc::Segment<"rows", std::byte>>>;
inline constexpr PullRows kPullRows{.number = 0x0101, .name = "pull_rows"};
// A pull that awaits pushes. It takes as long as they do, so its times are not those of pulls.
inline constexpr PullRows kAwaitRows{.number = 0x0109, .name = "await_rows"};

// The ids of a batch that was submitted. The response does not wait for the disk.
using ReadRowsAhead =
    rpc::MethodOf<rpc::MessageOf<wire::ReadRowsAheadRequest, rpc::Segment<"ids", uint64_t>>,
                  rpc::MessageOf<rpc::NoTable>>;
inline constexpr ReadRowsAhead kReadRowsAhead{.number = 0x010a, .name = "read_rows_ahead"};

using PushRows = rpc::MethodOf<rpc::MessageOf<wire::PushRowsRequest, rpc::Segment<"ids", uint64_t>,
                                              rpc::Segment<"gradients", std::byte>>,
                               rpc::MessageOf<wire::PushRowsResponse>>;
inline constexpr PushRows kPushRows{.number = 0x0102, .name = "push_rows"};

// A rank's last request. Servers then admit another run: see RunGuard.
using EndRun = rpc::MethodOf<rpc::MessageOf<wire::EndRunRequest>, rpc::MessageOf<rpc::NoTable>>;
inline constexpr EndRun kEndRun{.number = 0x0106, .name = "end_run"};

using SaveRows =
    rpc::MethodOf<rpc::MessageOf<wire::SaveRowsRequest>, rpc::MessageOf<wire::SaveRowsResponse>>;
inline constexpr SaveRows kSaveRows{.number = 0x0107, .name = "save_rows"};

// The response has the table of SaveRows.
using RestoreRows =
    rpc::MethodOf<rpc::MessageOf<wire::RestoreRowsRequest>, rpc::MessageOf<wire::SaveRowsResponse>>;
inline constexpr RestoreRows kRestoreRows{.number = 0x0108, .name = "restore_rows"};

// --- Embedding workers.

// The segments of an EncodedBatch: src/data/batch/COMPACT_BATCH.md.
using SubmitBatch =
    rpc::MethodOf<rpc::MessageOf<wire::SubmitBatchRequest, rpc::Segment<"plain_ids", uint64_t>,
                                 rpc::Segment<"codes", std::byte>>,
                  rpc::MessageOf<wire::BatchReference>>;
inline constexpr SubmitBatch kSubmitBatch{.number = 0x0201, .name = "submit_batch"};

// embeddings: a vector per sample in the format of embedding/vector_codec.h and the request's
// precision; or rows in the format of embedding/row_codec.h. argmax: one array per max-pooled
// feature, in feature order, as services/embedding_worker/README.md describes; empty for an
// evaluation.
using PullBatch =
    rpc::MethodOf<rpc::MessageOf<wire::PullBatchRequest>,
                  rpc::MessageOf<wire::PullBatchResponse, rpc::Segment<"embeddings", std::byte>,
                                 rpc::Segment<"argmax", std::byte>>>;
inline constexpr PullBatch kPullBatch{.number = 0x0202, .name = "pull_batch"};

// gradients: vectors as in PullBatch. argmax: the arrays of the pull's answer.
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

// --- nn-workers, called by other ranks and by the supervisors of hosts.

// A rank's first call to rank 0. The response waits for all ranks.
using MeetRanks =
    rpc::MethodOf<rpc::MessageOf<wire::MeetRanksRequest>, rpc::MessageOf<wire::MeetRanksResponse>>;
// The head has all settings of the training.
inline constexpr MeetRanks kMeetRanks{
    .number = 0x0305, .name = "meet_ranks", .max_head_bytes = 16 << 20};

// Sends the calling rank's part of a sum or gather. A repeated message is ignored.
using Exchange =
    rpc::MethodOf<rpc::MessageOf<wire::ExchangeRequest, rpc::Segment<"part", std::byte>>,
                  rpc::MessageOf<rpc::NoTable>>;
inline constexpr Exchange kExchange{.number = 0x0306, .name = "exchange"};

// The response waits until the called rank ends, and has the reason.
using AwaitEnd =
    rpc::MethodOf<rpc::MessageOf<wire::AwaitEndRequest>, rpc::MessageOf<wire::AwaitEndResponse>>;
inline constexpr AwaitEnd kAwaitEnd{.number = 0x0307, .name = "await_end"};

// The supervisors of other hosts call rank 0. The response waits for a while until training ends,
// and has the result; the first one of a caller does not wait. Errors: RESOURCE_EXHAUSTED while
// training continues; FAILED_PRECONDITION while it waits to begin, with the reason.
using AwaitTraining =
    rpc::MethodOf<rpc::MessageOf<rpc::NoTable>, rpc::MessageOf<wire::AwaitEndResponse>>;
inline constexpr AwaitTraining kAwaitTraining{.number = 0x0309, .name = "await_training"};

// The supervisors of other hosts call rank 0. Training ends as after SIGTERM.
using StopTraining = rpc::MethodOf<rpc::MessageOf<rpc::NoTable>, rpc::MessageOf<rpc::NoTable>>;
inline constexpr StopTraining kStopTraining{.number = 0x030a, .name = "stop_training"};

// `simurgh checkpoint` calls rank 0. The first call requests a checkpoint at the next step; its
// response numbers the request. The others wait for a while and report on it.
using SaveCheckpoint = rpc::MethodOf<rpc::MessageOf<wire::SaveCheckpointRequest>,
                                     rpc::MessageOf<wire::SaveCheckpointResponse>>;
inline constexpr SaveCheckpoint kSaveCheckpoint{.number = 0x0308, .name = "save_checkpoint"};

}  // namespace simurgh::api
