#pragma once

#include <string>

#include "services/runtime/daemon.h"
#include "simurgh/base/status.h"

namespace simurgh {

// Waits until the host of a listening address resolves, as that of a container that has just
// started. Names it in the log and in /readyz meanwhile. address: as in rpc/address.h. key: its
// configuration key.
// Errors: CANCELLED after a stop.
Status AwaitOwnHost(DaemonContext& context, const std::string& key, const std::string& address);

}  // namespace simurgh
