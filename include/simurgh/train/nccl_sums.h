#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "simurgh/base/status.h"
#include "simurgh/collective/collective.h"
#include "simurgh/collective/nccl_library.h"
#include "simurgh/nn/dense_network.h"

namespace simurgh {

// The ranks of a run agree on whether to sum between their devices, by NCCL, and connect these.
// Every rank calls it, with the same collective, on the thread that trains.
//
// nccl: what LoadNccl answers. Null: they sum on their hosts, since a network is on a CPU or a
// machine has no NCCL; *reason says which rank's.
// timeout: how long another rank may keep this one waiting. Who does is found out over the
// collective's channel kWatch.
// Lifetime: collective and library outlive the result.
// Errors: of the collective; UNAVAILABLE, DEADLINE_EXCEEDED when devices cannot be connected.
StatusOr<std::unique_ptr<DeviceSums>> ConnectDevices(const DenseNetwork& network,
                                                     Collective& collective,
                                                     const StatusOr<NcclLibrary*>& nccl,
                                                     std::chrono::milliseconds timeout,
                                                     std::string* reason);

}  // namespace simurgh
