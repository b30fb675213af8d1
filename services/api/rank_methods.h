#pragma once

// Methods that rank 0 serves to the other nn-workers. The tables are in ranks.fbs; a method's
// number and meaning never change.

#include <cstddef>

#include "rpc/method.h"
#include "services/api/ranks_generated.h"

namespace simurgh::api {

// Segments: the caller's address; the addresses of all ranks, concatenated, of equal length. The
// answer is sent after all ranks have called.
using MeetRanks =
    rpc::MethodOf<rpc::MessageOf<wire::MeetRanksRequest, rpc::Segment<"addresses", std::byte>>,
                  rpc::MessageOf<wire::MeetRanksResponse, rpc::Segment<"addresses", std::byte>>>;
inline constexpr MeetRanks kMeetRanks{.number = 0x0304, .name = "meet_ranks"};

}  // namespace simurgh::api
