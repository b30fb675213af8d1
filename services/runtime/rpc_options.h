#pragma once

#include "rpc/client.h"
#include "rpc/server.h"
#include "simurgh/base/status.h"
#include "simurgh/config/service_config.h"

namespace simurgh {

// The section `rpc` of a configuration, as a daemon's clients and its server take it.
struct RpcOptions {
  rpc::ClientOptions client;
  rpc::ServerOptions server;
};

// Errors: INVALID_ARGUMENT for files of `rpc.tls` that are of no use, naming key, file and remedy.
StatusOr<RpcOptions> MakeRpcOptions(const RpcConfig& config);

}  // namespace simurgh
