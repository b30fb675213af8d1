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
  std::string host;         // Name or address at which the other ranks reach this one.
  bool is_trusted = false;  // False: the host must be a loopback address.
  // Whether ranks of the same user on this machine may read gradients in this rank's memory.
  bool shares_memory = false;
  // Maximum wait for another rank, on every channel except kLoading.
  std::chrono::milliseconds timeout{120'000};
};

// Publishes this rank's addresses and returns those of all ranks, by rank. Only
// CreateGlooCollective interprets the bytes.
using ExchangeAddresses = std::function<StatusOr<std::vector<std::string>>(std::string own)>;

// A mesh of TCP connections between the ranks, neither encrypted nor authenticated. Ranks on one
// machine that share memory read each other's gradients there instead.
//
// Requires: the process ignores SIGPIPE, because Gloo writes to closed connections.
// Errors: INVALID_ARGUMENT if the host cannot be bound or is not allowed; those of the exchange;
// UNAVAILABLE when a rank cannot be reached in time, DEADLINE_EXCEEDED when it sends nothing.
// Source: Gloo, https://github.com/facebookincubator/gloo, for the connections. Sums use a direct
// reduce-scatter and all-gather, which keep the rank order; two ranks in f32 use an all-gather.
StatusOr<std::unique_ptr<Collective>> CreateGlooCollective(const GlooOptions& options,
                                                           const ExchangeAddresses& exchange);

}  // namespace simurgh
