#include "services/api/serving_cluster.h"

#include "absl/strings/str_cat.h"

namespace simurgh::api {

ClusterConfig ClusterOf(const ServingConfig& config) {
  ClusterConfig cluster;
  cluster.name = "serving";
  cluster.rpc = config.rpc;
  for (size_t i = 0; i < config.servers.size(); ++i) {
    InstanceConfig server;
    server.address = config.servers[i];
    server.address_key = server.listen_key = absl::StrCat(config.servers_key, ".", i);
    cluster.embedding_ps.instances.push_back(std::move(server));
  }
  return cluster;
}

}  // namespace simurgh::api
