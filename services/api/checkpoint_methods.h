#pragma once

// The method of rank 0 that `simurgh checkpoint` calls. The tables are in checkpoint.fbs. The
// number and meaning of a method never change.

#include "rpc/method.h"
#include "services/api/checkpoint_generated.h"

namespace simurgh::api {

// The first call asks for a checkpoint at the next step; its response numbers the request. The
// others wait for a while and report on it.
using SaveCheckpoint = rpc::MethodOf<rpc::MessageOf<wire::SaveCheckpointRequest>,
                                     rpc::MessageOf<wire::SaveCheckpointResponse>>;
inline constexpr SaveCheckpoint kSaveCheckpoint{.number = 0x0308, .name = "save_checkpoint"};

}  // namespace simurgh::api
