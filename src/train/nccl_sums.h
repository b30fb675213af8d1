#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"
#include "collective/collective.h"
#include "collective/nccl_library.h"
#include "nn/dense_network.h"

namespace simurgh {

// Connects the ranks' devices by NCCL if every rank has a device and NCCL. Otherwise returns null:
// ranks sum on their hosts, and *reason names the rank that lacks one. Every rank must call it, on
// the training thread.
//
// nccl: the result of LoadNccl. timeout: of waiting for another rank, which the collective's
// channel kWatch detects. Lifetime: collective and library must outlive the result. Errors: of the
// collective; UNAVAILABLE, DEADLINE_EXCEEDED when devices cannot be connected.
StatusOr<std::unique_ptr<DeviceSums>> ConnectDevices(const DenseNetwork& network,
                                                     Collective& collective,
                                                     const StatusOr<NcclLibrary*>& nccl,
                                                     std::chrono::milliseconds timeout,
                                                     std::string* reason);

}  // namespace simurgh
