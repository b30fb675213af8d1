#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/collective/collective.h"

namespace simurgh {

struct GlooOptions {
  uint32_t rank = 0;
  uint32_t ranks = 1;       // 2 to 1,024.
  std::string host;         // Of this rank, as the others reach it.
  bool is_trusted = false;  // Whether the host may be any; else it must be of this machine alone.
  // Whether other ranks of this user on this machine may read this one's gradients in its memory.
  bool shares_memory = false;
  // How long another rank may keep this one waiting, on any channel but kLoading.
  std::chrono::milliseconds timeout{120'000};
};

// Hands over where this rank can be reached; answers where each one can be, by rank. The texts are
// bytes for CreateGlooCollective alone.
using ExchangeAddresses = std::function<StatusOr<std::vector<std::string>>(std::string own)>;

// A mesh of TCP connections between the ranks. What is summed on the channel of gradients does not
// travel on them between two ranks on one machine, of which the giver shares its memory: the other
// reads it there.
//
// Requires that the process ignores SIGPIPE, as daemons do: Gloo writes to a rank that has gone.
// There is no secret on them: see GlooOptions::is_trusted. A rank that dies closes them, which the
// others notice in their next call, or in the present one.
// Errors: INVALID_ARGUMENT for a host that cannot be listened at or must not be; of the exchange;
// UNAVAILABLE when a rank cannot be reached in time, DEADLINE_EXCEEDED when it then says nothing.
// Source: Gloo, https://github.com/facebookincubator/gloo, for the connections; the sum of
// Collective is a direct reduce-scatter and all-gather, or in f32 between two ranks an all-gather,
// which keeps the order of the ranks.
StatusOr<std::unique_ptr<Collective>> CreateGlooCollective(const GlooOptions& options,
                                                           const ExchangeAddresses& exchange);

}  // namespace simurgh
