#include "services/runtime/rpc_options.h"

#include <memory>

#include "absl/strings/str_cat.h"

#include "rpc/tls.h"
#include "rpc/token.h"

namespace simurgh {
namespace {

StatusOr<std::shared_ptr<const rpc::TlsContext>> LoadTls(const TlsConfig& config) {
  auto context = rpc::TlsContext::Load({.certificate_file = config.certificate,
                                        .key_file = config.key,
                                        .authority_file = config.authority,
                                        .peer_name = config.peer_name,
                                        .allowed_names = config.allowed_names});
  if (context.ok()) return context;
  // The message begins with the last part of the key.
  return absl::InvalidArgumentError(absl::StrCat(config.where, ".", context.status().message()));
}

}  // namespace

StatusOr<RpcOptions> MakeRpcOptions(const RpcConfig& config) {
  RpcOptions options;
  if (!config.token_file.empty()) {
    const auto token = rpc::Token::Load(config.token_file);
    if (!token.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(config.token_key, ": ", token.status().message()));
    }
    options.client.token = *token;
    options.server.token = *token;
  }
  if (config.security == Security::kTls) {
    SIMURGH_ASSIGN_OR_RETURN(options.server.tls, LoadTls(config.tls));
    options.client.tls = options.server.tls;
  }
  options.server.insecure = config.security == Security::kInsecure;
  options.client.connect_timeout = config.connect_timeout;
  options.client.stall_timeout = config.stall_timeout;
  options.client.max_frame_bytes = config.max_frame_bytes;
  options.server.max_frame_bytes = config.max_frame_bytes;
  options.server.max_connections = config.max_connections;
  options.server.max_connections_per_host = config.max_connections_per_host;
  options.server.max_request_bytes_per_connection = config.peer_memory_bytes;
  options.server.max_answer_bytes_per_connection = config.peer_memory_bytes;
  options.server.stall_timeout = config.stall_timeout;
  return options;
}

rpc::ClientOptions OptionsFor(rpc::ClientOptions options, const std::string& role,
                              const std::vector<InstanceConfig>& instances, size_t index) {
  options.check_server = [role, instances, index](const rpc::Hello& server) {
    const InstanceConfig& dialled = instances[index];
    const std::string what = absl::StrCat(dialled.address_key, ": ", dialled.address, " is ");
    if (server.role != role) {
      return absl::InvalidArgumentError(absl::StrCat(what, "an ", server.role, ", not an ", role,
                                                     "; use the address of ", role, " ", index));
    }
    if (server.index == index) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(what, role, " ", server.index, ", which the configuration ",
                     server.index < instances.size() ? "has at " + instances[server.index].address
                                                     : "does not have",
                     "; use the same addresses in the same order for all daemons"));
  };
  return options;
}

}  // namespace simurgh
