#pragma once

// Methods of the nn-worker of rank 0, called by the others. The tables are in ranks.fbs. The number
// and meaning of a method never change.

#include <cstddef>

#include "rpc/method.h"
#include "services/api/ranks_generated.h"

namespace simurgh::api {

// addresses: of the calling rank; in the response, of all ranks, concatenated, of equal length. The
// response waits for all ranks.
using MeetRanks =
    rpc::MethodOf<rpc::MessageOf<wire::MeetRanksRequest, rpc::Segment<"addresses", std::byte>>,
                  rpc::MessageOf<wire::MeetRanksResponse, rpc::Segment<"addresses", std::byte>>>;
// The head has all settings of the training.
inline constexpr MeetRanks kMeetRanks{
    .number = 0x0304, .name = "meet_ranks", .max_head_bytes = 16 << 20};

}  // namespace simurgh::api
