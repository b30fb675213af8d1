#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/rpc/raw_peer.h"

namespace simurgh::fuzz {

inline constexpr uint32_t kEchoMethod = 1;

// A well-formed frame of each kind, HELLO first.
std::vector<rpc::testing::RawFrame> OneOfEachKind();

}  // namespace simurgh::fuzz
