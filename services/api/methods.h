#pragma once

#include "rpc/call.h"

namespace simurgh::api {

// Method numbers on the wire; they never change their meaning.
inline constexpr rpc::MethodId kPullRows{.number = 0x0101, .name = "pull_rows"};  // embedding-ps
inline constexpr rpc::MethodId kPushRows{.number = 0x0102, .name = "push_rows"};  // embedding-ps
inline constexpr rpc::MethodId kSubmitBatch{.number = 0x0201,
                                            .name = "submit_batch"};  // embedding-worker
inline constexpr rpc::MethodId kPullBatch{.number = 0x0202,
                                          .name = "pull_batch"};  // embedding-worker
inline constexpr rpc::MethodId kPushBatch{.number = 0x0203,
                                          .name = "push_batch"};  // embedding-worker

}  // namespace simurgh::api
