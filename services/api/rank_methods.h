#pragma once

// Methods of nn-workers, called by other ranks and by the supervisors of hosts. The tables are in
// ranks.fbs. The number and meaning of a method never change; 0x0304 was an earlier meet_ranks.

#include <cstddef>

#include "rpc/method.h"
#include "services/api/checkpoint_generated.h"
#include "services/api/ranks_generated.h"

namespace simurgh::api {

// To rank 0. The response waits for all ranks.
using MeetRanks =
    rpc::MethodOf<rpc::MessageOf<wire::MeetRanksRequest>, rpc::MessageOf<wire::MeetRanksResponse>>;
// The head has all settings of the training.
inline constexpr MeetRanks kMeetRanks{
    .number = 0x0305, .name = "meet_ranks", .max_head_bytes = 16 << 20};

// The calling rank's part of a sum or gather. A repeated message is ignored.
using Exchange =
    rpc::MethodOf<rpc::MessageOf<wire::ExchangeRequest, rpc::Segment<"part", std::byte>>,
                  rpc::MessageOf<rpc::NoTable>>;
inline constexpr Exchange kExchange{.number = 0x0306, .name = "exchange"};

// The response waits until the called rank ends, and tells why.
using AwaitEnd =
    rpc::MethodOf<rpc::MessageOf<wire::AwaitEndRequest>, rpc::MessageOf<wire::AwaitEndResponse>>;
inline constexpr AwaitEnd kAwaitEnd{.number = 0x0307, .name = "await_end"};

// To rank 0, by the supervisors of other hosts. The response waits for a while until training ends,
// and tells how; the first one of a caller does not wait. Errors: RESOURCE_EXHAUSTED while training
// goes on; FAILED_PRECONDITION while it waits to begin, with the reason.
using AwaitTraining =
    rpc::MethodOf<rpc::MessageOf<rpc::NoTable>, rpc::MessageOf<wire::AwaitEndResponse>>;
inline constexpr AwaitTraining kAwaitTraining{.number = 0x0309, .name = "await_training"};

// To rank 0, by the same. Training ends as by SIGTERM.
using StopTraining = rpc::MethodOf<rpc::MessageOf<rpc::NoTable>, rpc::MessageOf<rpc::NoTable>>;
inline constexpr StopTraining kStopTraining{.number = 0x030a, .name = "stop_training"};

// The method of rank 0 that `simurgh checkpoint` calls. The tables are in checkpoint.fbs. The
// number and meaning of a method never change.

// The first call asks for a checkpoint at the next step; its response numbers the request. The
// others wait for a while and report on it.
using SaveCheckpoint = rpc::MethodOf<rpc::MessageOf<wire::SaveCheckpointRequest>,
                                     rpc::MessageOf<wire::SaveCheckpointResponse>>;
inline constexpr SaveCheckpoint kSaveCheckpoint{.number = 0x0308, .name = "save_checkpoint"};

}  // namespace simurgh::api
