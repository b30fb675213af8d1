#pragma once

#include "rpc/client.h"
#include "rpc/server.h"
#include "simurgh/base/status.h"
#include "simurgh/config/service_config.h"

namespace simurgh {

// The options of the configuration's section `rpc`.
struct RpcOptions {
  rpc::ClientOptions client;
  rpc::ServerOptions server;
};

// Errors: INVALID_ARGUMENT for unusable files of `rpc.tls`, naming key, file and remedy.
StatusOr<RpcOptions> MakeRpcOptions(const RpcConfig& config);

}  // namespace simurgh
