#pragma once

// What nn-workers ask of the first of them. The tables are in ranks.fbs; a method's number, and
// what it means, never change.

#include <cstddef>

#include "rpc/method.h"
#include "services/api/ranks_generated.h"

namespace simurgh::api {

// The segments: where the asking rank can be reached; where all ranks can be, one after the other,
// as long each. Answered when all have come.
using MeetRanks =
    rpc::MethodOf<rpc::MessageOf<wire::MeetRanksRequest, rpc::Segment<"addresses", std::byte>>,
                  rpc::MessageOf<wire::MeetRanksResponse, rpc::Segment<"addresses", std::byte>>>;
inline constexpr MeetRanks kMeetRanks{.number = 0x0304, .name = "meet_ranks"};

}  // namespace simurgh::api
