#pragma once

#include <cstddef>
#include <string>
#include <vector>

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

// Errors: INVALID_ARGUMENT for unusable files of `rpc.tls` and `cluster.token_file`, naming key,
// file and remedy.
StatusOr<RpcOptions> MakeRpcOptions(const RpcConfig& config);

// The options for a client of instances[index], whose daemons have this role. The client refuses a
// server of another role or index with INVALID_ARGUMENT, naming the key and the addresses.
rpc::ClientOptions OptionsFor(rpc::ClientOptions options, const std::string& role,
                              const std::vector<InstanceConfig>& instances, size_t index);

}  // namespace simurgh
